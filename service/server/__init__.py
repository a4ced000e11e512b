"""The server process: uvicorn, its HTTP protocol, memory settings, and draining on SIGTERM."""
