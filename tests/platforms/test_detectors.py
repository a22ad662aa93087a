"""The built-in detectors answer by their rules, against stand-ins for the device libraries."""

from __future__ import annotations

import importlib
import itertools
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from platform_abc.errors import ResolutionError
from platform_abc.reasons import Reasons, listening
from platform_abc.resolution import resolve
from platforms import detectors
from platforms.torch_build import TorchBuild

IN_WSL = detectors.in_wsl  # every test but its own has it replaced

ZEN = "vendor_id : AuthenticAMD\nflags : fpu avx2 avx512f avx512_bf16\n"


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No device, no device library, no variable, an Intel CPU, Linux, and a CPU build of torch."""
    for name in ("PLATFORM_ABC_TARGET_DEVICE", "PLATFORM_ABC_PLUGINS", "JAX_PLATFORMS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("pynvml", "amdsmi", "libtpu", "tpu_inference", "zentorch"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(detectors, "JETSON_MARKERS", (str(tmp_path / "nv_tegra_release"),))
    monkeypatch.setattr(detectors, "CPU_INFO", str(tmp_path / "cpuinfo"))
    monkeypatch.setattr(detectors, "in_wsl", lambda: False)
    monkeypatch.setattr(sys, "platform", "linux")
    build(monkeypatch, "cpu")


def build(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    made = TorchBuild(kind, "2.13.0", f"torch is a {kind} build")  # type: ignore[arg-type]
    monkeypatch.setattr(detectors, "torch_build", lambda: made)


def fake(monkeypatch: pytest.MonkeyPatch, name: str, **members: object) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = f"/site/{name}.py"
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)
    return module


class NVMLError(Exception):
    """As NVML's own."""


def nvml(
    monkeypatch: pytest.MonkeyPatch, count: int | Exception = 1, init: Exception | None = None
) -> list[str]:
    """A stand-in for pynvml; returns the log of its calls."""
    calls: list[str] = []

    def start() -> None:
        calls.append("init")
        if init is not None:
            raise init

    def counted() -> int:
        calls.append("count")
        if isinstance(count, Exception):
            raise count
        return count

    fake(
        monkeypatch,
        "pynvml",
        nvmlInit=start,
        nvmlShutdown=lambda: calls.append("shutdown"),
        nvmlDeviceGetCount=counted,
    )
    return calls


def amdsmi(monkeypatch: pytest.MonkeyPatch, handles: list[object] | Exception) -> list[str]:
    """A stand-in for amdsmi; returns the log of its calls."""
    calls: list[str] = []

    def listed() -> list[object]:
        if isinstance(handles, Exception):
            raise handles
        return handles

    fake(
        monkeypatch,
        "amdsmi",
        amdsmi_init=lambda: calls.append("init"),
        amdsmi_shut_down=lambda: calls.append("shutdown"),
        amdsmi_get_processor_handles=listed,
    )
    return calls


def said(detector: object) -> tuple[str | None, list[str], list[str]]:
    """Ask a detector; return its answer, its reasons, its warnings."""
    reasons = Reasons()
    with listening(reasons, ""):
        answer = detector()  # type: ignore[operator]
    return answer, reasons.said, reasons.warned


# ------------------------------------------------------------------------------- all of them


def test_the_order_is_fixed() -> None:
    """tpu, cuda, rocm, xpu, cpu."""
    assert list(detectors.BUILTIN_DETECTORS) == ["tpu", "cuda", "rocm", "xpu", "cpu"]
    with pytest.raises(TypeError):
        detectors.BUILTIN_DETECTORS["x"] = lambda: None  # type: ignore[index]


@pytest.mark.parametrize("name", detectors.BUILTIN_DETECTORS)
def test_without_torch_none_answers_and_says_so(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Even with every device there."""
    build(monkeypatch, "missing")
    nvml(monkeypatch)
    amdsmi(monkeypatch, [1])
    fake(monkeypatch, "libtpu")
    answer, reasons, _ = said(detectors.BUILTIN_DETECTORS[name])
    assert answer is None
    assert reasons == ["torch is a missing build"]


@pytest.mark.parametrize(
    ("kind", "devices"),
    [
        (kind, devices)
        for kind in ("missing", "cpu", "cuda", "rocm", "xpu")
        for count in range(5)
        for devices in itertools.combinations(("nvidia", "amd", "intel", "tpu"), count)
    ],
)
def test_at_most_one_detector_answers(
    monkeypatch: pytest.MonkeyPatch, kind: str, devices: tuple[str, ...]
) -> None:
    """In every mix of devices and builds of torch; a TPU may stand beside an accelerator, which is an error."""
    build(monkeypatch, kind)
    if "nvidia" in devices:
        nvml(monkeypatch)
    if "amd" in devices:
        amdsmi(monkeypatch, ["one"])
    fake(monkeypatch, "torch", xpu=SimpleNamespace(is_available=lambda: "intel" in devices))
    if "tpu" in devices:
        fake(monkeypatch, "libtpu")
        fake(monkeypatch, "tpu_inference")
    active = {name for name, detector in detectors.BUILTIN_DETECTORS.items() if detector() is not None}
    served = {"cuda": "nvidia", "rocm": "amd", "xpu": "intel"}.get(kind)
    expected = {kind} if served in devices else set()
    if kind == "cpu" and "tpu" not in devices:
        expected = {"cpu"}
    if kind != "missing" and "tpu" in devices:
        expected |= {"tpu"}
    assert active == expected


# ------------------------------------------------------------------------------- TPU


@pytest.mark.parametrize("value", ["proxy", "proxy,cpu", "tpu,PROXY"])
def test_pathways_is_a_tpu(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """By JAX's variable, without libtpu."""
    monkeypatch.setenv("JAX_PLATFORMS", value)
    fake(monkeypatch, "tpu_inference")
    answer, reasons, _ = said(detectors.tpu_platform_plugin)
    assert answer == "platforms.tpu.TpuPlatform"
    assert "Pathways" in reasons[0]


def test_an_importable_libtpu_is_a_tpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the package that supplies the class."""
    fake(monkeypatch, "libtpu")
    fake(monkeypatch, "tpu_inference")
    assert detectors.tpu_platform_plugin() == "platforms.tpu.TpuPlatform"


@pytest.mark.parametrize("sign", ["pathways", "libtpu"])
def test_a_tpu_without_the_package_is_a_warning_and_no_answer(
    monkeypatch: pytest.MonkeyPatch, sign: str
) -> None:
    """The answer would otherwise be a class that cannot be imported."""
    if sign == "pathways":
        monkeypatch.setenv("JAX_PLATFORMS", "proxy")
    else:
        fake(monkeypatch, "libtpu")
    answer, _, warned = said(detectors.tpu_platform_plugin)
    assert answer is None
    assert "tpu_inference, which supplies the TPU platform, is not installed" in warned[0]
    assert detectors.cpu_platform_plugin() == "platforms.cpu.CpuPlatform"


def test_a_bare_folder_is_no_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python would import it as a namespace; here it is what was left of an uninstalled package."""
    monkeypatch.setenv("JAX_PLATFORMS", "proxy")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tpu_inference")
    (tmp_path / "tpu_inference").mkdir()
    importlib.invalidate_caches()
    assert detectors.tpu_platform_plugin() is None


def test_a_libtpu_that_exits_spoils_no_other_detector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library may end the process where its device is missing; the CPU's detector asks for it too."""
    (tmp_path / "libtpu.py").write_text("raise SystemExit('no TPU')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "libtpu")
    assert detectors.tpu_platform_plugin() is None
    assert detectors.cpu_platform_plugin() is not None


def test_a_libtpu_that_does_not_load_is_no_tpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a bare folder of that name in the current directory."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "libtpu")
    (tmp_path / "libtpu").mkdir()
    assert said(detectors.tpu_platform_plugin)[:2] == (None, ["libtpu is a folder without a package in it"])
    sys.modules.pop("libtpu", None)
    (tmp_path / "libtpu.py").write_text("raise OSError('wrong glibc')\n")
    (tmp_path / "libtpu").rmdir()
    importlib.invalidate_caches()
    assert "OSError: wrong glibc" in said(detectors.tpu_platform_plugin)[1][0]


# ------------------------------------------------------------------------------- CUDA


def test_nvml_that_counts_a_device_is_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML is shut down again; no device context is started."""
    build(monkeypatch, "cuda")
    calls = nvml(monkeypatch, 2)
    answer, reasons, _ = said(detectors.cuda_platform_plugin)
    assert answer == "platforms.cuda.CudaPlatform"
    assert calls == ["init", "count", "shutdown"]
    assert reasons == ["NVML counts 2 devices"]


def test_nvml_that_counts_none_is_not_cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """NVML works, so a marker of a Jetson changes nothing."""
    build(monkeypatch, "cuda")
    (tmp_path / "nv_tegra_release").touch()
    nvml(monkeypatch, 0)
    assert detectors.cuda_platform_plugin() is None


def test_a_cpu_build_beside_a_gpu_is_not_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML is not even asked, and the CPU platform is chosen."""
    calls = nvml(monkeypatch)
    assert detectors.cuda_platform_plugin() is None
    assert calls == []
    assert detectors.cpu_platform_plugin() == "platforms.cpu.CpuPlatform"


@pytest.mark.parametrize("how", ["not installed", "init fails", "count fails", "broken package"])
@pytest.mark.parametrize("jetson", [True, False])
def test_without_nvml_the_markers_of_a_jetson_decide(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str, jetson: bool
) -> None:
    """However NVML is missing."""
    build(monkeypatch, "cuda")
    if how == "init fails":
        nvml(monkeypatch, init=NVMLError("Library Not Found"))
    elif how == "count fails":
        assert nvml(monkeypatch, NVMLError("Driver Not Loaded")) == []
    elif how == "broken package":
        fake(monkeypatch, "pynvml")  # another package of that name, without the functions
    if jetson:
        (tmp_path / "nv_tegra_release").touch()
    assert detectors.cuda_platform_plugin() == ("platforms.cuda.CudaPlatform" if jetson else None)


# ------------------------------------------------------------------------------- ROCm


def test_amdsmi_that_counts_a_device_is_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is shut down again."""
    build(monkeypatch, "rocm")
    calls = amdsmi(monkeypatch, ["a", "b"])
    answer, reasons, _ = said(detectors.rocm_platform_plugin)
    assert answer == "platforms.rocm.RocmPlatform"
    assert calls == ["init", "shutdown"]
    assert reasons == ["amdsmi counts 2 devices"]


@pytest.mark.parametrize("handles", [[], OSError("sysfs not mounted"), KeyError("x")])
def test_amdsmi_without_a_device_or_an_answer_is_not_rocm(
    monkeypatch: pytest.MonkeyPatch, handles: object
) -> None:
    """Outside WSL there is no second opinion; nothing is raised."""
    build(monkeypatch, "rocm")
    calls = amdsmi(monkeypatch, handles)  # type: ignore[arg-type]
    assert detectors.rocm_platform_plugin() is None
    assert calls == ["init", "shutdown"]


@pytest.mark.parametrize("available", [True, False])
def test_under_wsl_a_hip_torch_with_a_device_is_rocm(
    monkeypatch: pytest.MonkeyPatch, available: bool
) -> None:
    """amdsmi does not work there, so torch is asked."""
    build(monkeypatch, "rocm")
    monkeypatch.setattr(detectors, "in_wsl", lambda: True)
    fake(monkeypatch, "torch", cuda=SimpleNamespace(is_available=lambda: available))
    assert detectors.rocm_platform_plugin() == ("platforms.rocm.RocmPlatform" if available else None)


def test_outside_wsl_a_hip_torch_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """amdsmi works there, and what it counts decides."""
    build(monkeypatch, "rocm")
    fake(monkeypatch, "torch", cuda=SimpleNamespace(is_available=lambda: True))
    assert detectors.rocm_platform_plugin() is None


@pytest.mark.parametrize(
    ("release", "expected"), [("5.15.167.4-microsoft-standard-WSL2", True), ("6.8.0-1021-aws", False)]
)
def test_wsl_is_known_by_the_kernel(monkeypatch: pytest.MonkeyPatch, release: str, expected: bool) -> None:
    """By its release, in any case of letters."""
    monkeypatch.setattr(os, "uname", lambda: ("Linux", "host", release, "#1 SMP", "x86_64"), raising=False)
    assert IN_WSL() is expected


def test_under_wsl_another_torch_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a HIP build is asked."""
    build(monkeypatch, "gpu")
    monkeypatch.setattr(detectors, "in_wsl", lambda: True)
    monkeypatch.setitem(sys.modules, "torch", None)
    answer, reasons, _ = said(detectors.rocm_platform_plugin)
    assert answer is None
    assert reasons[-1] == "under WSL, torch is a gpu build"


def test_under_wsl_a_torch_that_does_not_import_is_not_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is told, nothing is raised."""
    build(monkeypatch, "rocm")
    monkeypatch.setattr(detectors, "in_wsl", lambda: True)
    monkeypatch.setitem(sys.modules, "torch", None)
    answer, reasons, _ = said(detectors.rocm_platform_plugin)
    assert answer is None
    assert "torch cannot be asked" in reasons[-1]


def test_a_cpu_build_beside_an_amd_gpu_is_not_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the CPU's detector would answer too, and two are an error."""
    amdsmi(monkeypatch, ["a"])
    assert detectors.rocm_platform_plugin() is None


# ------------------------------------------------------------------------------- XPU


@pytest.mark.parametrize("available", [True, False])
def test_an_xpu_build_of_torch_is_asked(monkeypatch: pytest.MonkeyPatch, available: bool) -> None:
    """It alone knows."""
    build(monkeypatch, "xpu")
    fake(monkeypatch, "torch", xpu=SimpleNamespace(is_available=lambda: available))
    assert detectors.xpu_platform_plugin() == ("platforms.xpu.XPUPlatform" if available else None)


@pytest.mark.parametrize("kind", ["cpu", "cuda", "rocm", "gpu"])
def test_beside_another_build_torch_is_not_imported(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Importing torch costs seconds."""
    build(monkeypatch, kind)
    asked: list[str] = []
    monkeypatch.setattr(detectors, "_torch_module", asked.append)
    assert detectors.xpu_platform_plugin() is None
    assert asked == []


def test_an_xpu_torch_that_does_not_import_is_no_xpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing driver library, for example."""
    build(monkeypatch, "xpu")
    monkeypatch.setitem(sys.modules, "torch", None)
    answer, reasons, _ = said(detectors.xpu_platform_plugin)
    assert answer is None
    assert "torch.xpu cannot be asked" in reasons[0]


# ------------------------------------------------------------------------------- CPU


def test_a_cpu_build_of_torch_is_the_cpu() -> None:
    """On a machine without anything else."""
    assert detectors.cpu_platform_plugin() == "platforms.cpu.CpuPlatform"


@pytest.mark.parametrize("kind", ["cuda", "rocm", "xpu", "gpu"])
def test_another_build_is_not_the_cpu(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """It was installed for its device; whoever wants the CPU all the same says so."""
    build(monkeypatch, kind)
    assert detectors.cpu_platform_plugin() is None
    monkeypatch.setenv("PLATFORM_ABC_TARGET_DEVICE", "cpu")
    assert detectors.cpu_platform_plugin() == "platforms.cpu.CpuPlatform"


def test_macos_is_the_cpu_whatever_torch_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its torch wheels have no local part."""
    build(monkeypatch, "gpu")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert detectors.cpu_platform_plugin() == "platforms.cpu.CpuPlatform"


def zen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: str | None) -> None:
    (tmp_path / "cpuinfo").write_text(ZEN)
    monkeypatch.delitem(sys.modules, "zentorch", raising=False)
    if library is not None:
        (tmp_path / "zentorch.py").write_text(library)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_an_amd_zen_cpu_with_its_library_is_zen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The library is imported to see that it loads."""
    zen(monkeypatch, tmp_path, "")
    assert detectors.cpu_platform_plugin() == "platforms.zen_cpu.ZenCpuPlatform"


def test_another_cpu_does_not_import_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nor does a Zen without AVX-512."""
    zen(monkeypatch, tmp_path, "raise RuntimeError")
    for text in ("vendor_id : GenuineIntel\nflags : avx512f\n", "vendor_id : AuthenticAMD\nflags : avx2\n"):
        (tmp_path / "cpuinfo").write_text(text)
        assert said(detectors.cpu_platform_plugin) == (
            "platforms.cpu.CpuPlatform",
            ["torch is a cpu build"],
            [],
        )


def test_a_zen_without_the_library_is_no_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is optional."""
    zen(monkeypatch, tmp_path, None)
    answer, reasons, warned = said(detectors.cpu_platform_plugin)
    assert answer == "platforms.cpu.CpuPlatform"
    assert "zentorch is not installed" in reasons[-1]
    assert warned == []


@pytest.mark.parametrize(
    "raised",
    [
        "OSError('undefined symbol: aten')",
        "RuntimeError('needs torch 2.12')",
        "ImportError('libamdzen.so')",
        "ModuleNotFoundError(\"No module named 'numpy'\", name='numpy')",
        "SystemExit(1)",
        "TypeError('x')",
    ],
)
def test_any_failure_of_the_library_falls_back_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, raised: str
) -> None:
    """The plain CPU platform is chosen by the whole resolution, which asks the detector twice."""
    zen(monkeypatch, tmp_path, f"raise {raised}\n")
    platform, report = resolve(detectors.resolution_spec())
    assert type(platform).__name__ == "CpuPlatform"
    (warning,) = report.warnings
    assert "zentorch does not load" in warning
    assert raised.split("(", maxsplit=1)[0] in warning
    assert len([each for each in caplog.messages if "zentorch does not load" in each]) == 1


# ------------------------------------------------------------------------------- together


def test_a_tpu_beside_a_cuda_device_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two devices that torch and JAX serve: nobody chooses silently."""
    build(monkeypatch, "cuda")
    nvml(monkeypatch)
    fake(monkeypatch, "libtpu")
    fake(monkeypatch, "tpu_inference")
    with pytest.raises(ResolutionError, match="only one built-in platform can be active.*: cuda, tpu"):
        resolve(detectors.resolution_spec())


def test_no_torch_is_the_unspecified_platform_with_a_warning_that_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All detectors in one phrase."""
    build(monkeypatch, "missing")
    platform, _ = resolve(detectors.resolution_spec())
    assert type(platform).__name__ == "UnspecifiedPlatform"
    assert "tpu, cuda, rocm, xpu, cpu (torch is a missing build)" in caplog.text


def test_a_wrong_target_does_not_make_a_detector_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolution refuses it; who calls the detector alone still gets an answer."""
    monkeypatch.setenv("PLATFORM_ABC_TARGET_DEVICE", "gpu")
    assert detectors.cpu_platform_plugin() == "platforms.cpu.CpuPlatform"
