"""TensorFlow is asked for less noise before anybody imports it, and for no graphics card."""

import os

os.environ.update({"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": ""})
