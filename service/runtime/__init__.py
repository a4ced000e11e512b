"""ONNX Runtime backend: inference sessions and key/value cache memory."""

import os

# Disables ONNX Runtime telemetry, which writes a machine identifier to disk and reports usage to
# Microsoft. The library reads the variable at import, from the C environment, not os.environ.
os.putenv("ORT_DISABLE_TELEMETRY", "1")
