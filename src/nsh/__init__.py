"""Label-free learned binary codes for image retrieval.

This module imports none of its packages, so that importing one does not import the others.
"""

import os

# onnxruntime's official wheels report usage unless this is set before they are imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__version__ = "0.1.0"
