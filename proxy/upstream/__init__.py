"""The model servers behind the proxy: connections, which replica answers for which version, and sending a call there."""
