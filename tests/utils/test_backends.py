"""Switches that programs set and read."""

import importlib

import pytest

import flambeau as torch


@pytest.mark.parametrize(
    "name",
    ["cpu", "cuda", "cudnn", "cusparselt", "kleidiai", "mha", "miopen", "mkl", "mkldnn", "mps", "nnpack", "openmp",
     "opt_einsum", "quantized"],
)  # fmt: skip
def test_modules_can_be_imported(name):
    module = importlib.import_module(f"flambeau.backends.{name}")
    assert getattr(torch.backends, name) is module


def test_switches_are_kept_and_checked():
    cudnn = torch.backends.cudnn
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32) == (True, False, False, True)
    cudnn.benchmark = True
    try:
        assert cudnn.benchmark
        with cudnn.flags(enabled=False, deterministic=True):
            assert cudnn.deterministic and not cudnn.enabled and not cudnn.benchmark
        assert cudnn.benchmark and cudnn.enabled
        with pytest.raises(RuntimeError):
            cudnn.benchmark = 1
    finally:
        cudnn.benchmark = False


def test_tf32_goes_with_the_precision_of_products():
    matmul = torch.backends.cuda.matmul
    assert not matmul.allow_tf32 and matmul.fp32_precision == "none"
    matmul.allow_tf32 = True
    try:
        assert torch.get_float32_matmul_precision() == "high" and matmul.fp32_precision == "tf32"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert not matmul.allow_tf32
    with pytest.raises(AttributeError):
        matmul.nothing = 1


def test_quantized_engine():
    assert torch.backends.quantized.engine in torch.backends.quantized.supported_engines
    with pytest.raises(RuntimeError):
        torch.backends.quantized.engine = "steam"


def test_what_is_not_used_says_so():
    assert not torch.backends.mps.is_available() and not torch.backends.mkl.is_available()
    assert torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512", "SVE256")


def test_attention_switches():
    assert torch.backends.cuda.flash_sdp_enabled()
    with torch.backends.cuda.sdp_kernel(enable_flash=False):
        assert not torch.backends.cuda.flash_sdp_enabled() and torch.backends.cuda.math_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()


def test_extensions_are_refused_with_advice():
    from flambeau.utils import cpp_extension

    for call in (cpp_extension.load, cpp_extension.load_inline, cpp_extension.CppExtension):
        with pytest.raises(RuntimeError, match="no C\\+\\+ interface"):
            call("name", ["file.cpp"])


def test_environment_report():
    from flambeau.utils import collect_env

    text = collect_env.get_pretty_env_info()
    assert f"flambeau version: {torch.__version__}" in text and "numpy==" in text
