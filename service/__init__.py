"""Machine-translation service: loads bundles and translates text over HTTP."""

__version__ = "0.1.0"
