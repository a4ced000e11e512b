"""Translates texts with loaded models, independent of HTTP and of ONNX Runtime."""
