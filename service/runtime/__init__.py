"""ONNX Runtime: graphs and key/value memory."""

import os

# ONNX Runtime would write an identifier of this machine to the disk and report to its maker what is
# run. It reads this when it is first imported, from the process and not from os.environ.
os.putenv("ORT_DISABLE_TELEMETRY", "1")
