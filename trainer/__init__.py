"""The learning half: claim, build, update, publish. Never imports FastAPI, nor the proxy."""
