"""Tests marked `gpu` run where there is a CUDA device, tests marked `page` where there is a Chromium."""

import shutil

import pytest
import torch


def pytest_collection_modifyitems(items):
    no_gpu = pytest.mark.skip(reason="no CUDA device")
    no_page = pytest.mark.skip(reason="no chromium on PATH")
    for item in items:
        if "gpu" in item.keywords and not torch.cuda.is_available():
            item.add_marker(no_gpu)
        if "page" in item.keywords and shutil.which("chromium") is None:
            item.add_marker(no_page)
