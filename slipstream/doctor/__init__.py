"""What `slipstream doctor` looks at: each check asks one part and returns findings, each with a remedy where it is wrong."""
