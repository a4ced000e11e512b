"""Exports a network as a bundle: ONNX graphs, quantisation, parity proof, publication."""

import os

# Disable telemetry: ONNX Runtime would write a machine identifier to the disk and report usage to
# Microsoft. It reads this variable from the process at first import, not from os.environ.
os.putenv("ORT_DISABLE_TELEMETRY", "1")
