"""The example package, installed into a fresh environment: it wins, it runs, and the kit finds no fault."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.project.trees import ROOT, python

pytestmark = [pytest.mark.install, pytest.mark.slow, pytest.mark.torch]

EXAMPLE = ROOT / "examples" / "dummy_platform"
ANSWER = 'print("ANSWER", json.dumps(told))'


def _ask(interpreter: str, program: str, **env: str) -> dict:
    told = python("-c", f"import json\n{program}\n{ANSWER}", exe=interpreter, env=env)
    return json.loads(next(line for line in told.splitlines() if line.startswith("ANSWER "))[7:])


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory):
    """An interpreter of a fresh environment that has the example package, installed from its folder.

    What this environment already has (our package, torch, the build backend) is lent to the fresh one by
    path, so that the test neither downloads nor builds it again.
    """
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=False)
    exe = folder / "bin" / "python"
    site = subprocess.run(
        [exe, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    lent = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    # addsitedir, not a plain path: an editable install is itself a .pth file in there.
    lines = "".join(f"import site; site.addsitedir({one!r})\n" for one in sorted(lent))
    Path(site, "zz_lent.pth").write_text(lines)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(exe), "install", "--quiet", "--no-index"),
            *("--no-deps", "--no-build-isolation", str(EXAMPLE)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return str(exe)


def test_report_says_that_the_plugin_wins(interpreter):
    """An active out-of-tree detector wins over the built-in ones, and the report names its distribution."""
    told = python("-m", "platform_abc", exe=interpreter)
    assert "platform of platform-abc: dummy_platform.platform.DummyPlatform" in told
    assert "the out-of-tree detector dummy (dummy-platform 0.1.0) is active, which wins" in told


def test_log_says_that_the_plugin_is_activated(interpreter):
    """The line that users of plugins look for stands in the log at INFO."""
    level = {"PLATFORM_ABC_LOGGING_LEVEL": "INFO"}
    told = python("-c", "import platforms; platforms.current_platform", exe=interpreter, env=level)
    assert "platform plugin dummy (dummy-platform 0.1.0) is activated" in told


def test_current_platform_is_the_dummy(interpreter):
    """Reading `current_platform` gives the package's class, which says that it is out of tree."""
    program = """
from platforms import current_platform as p
told = {"class": type(p).__qualname__, "oot": p.is_out_of_tree(), "type": p.device_type, "key": p.dispatch_key}
"""
    assert _ask(interpreter, program) == {
        "class": "DummyPlatform",
        "oot": True,
        "type": "privateuseone",
        "key": "PrivateUse1",
    }


def test_detector_really_looks_for_the_device(interpreter):
    """Without a device the detector answers None, and a built-in platform is chosen."""
    told = python("-m", "platform_abc", exe=interpreter, env={"DUMMY_PLATFORM_DEVICES": "0"})
    assert "platform of platform-abc: platforms." in told
    assert "DUMMY_PLATFORM_DEVICES=0, so no device is simulated" in told


def test_nonsense_in_the_variable_makes_the_detector_fail_and_be_named(interpreter):
    """A detector that raises counts as not active; the warning names the package and the reason."""
    told = python("-m", "platform_abc", exe=interpreter, env={"DUMMY_PLATFORM_DEVICES": "many"})
    assert "dummy-platform" in told
    assert "DUMMY_PLATFORM_DEVICES='many'" in told


def test_importing_the_package_loads_no_torch_and_resolves_nothing(interpreter):
    """The entry points' module is imported in every process, before a platform may be chosen."""
    program = """
import sys, dummy_platform, dummy_platform.devices, dummy_platform.platform
import platforms
told = {"torch": "torch" in sys.modules, "resolved": "current_platform" in vars(platforms)}
"""
    assert _ask(interpreter, program) == {"torch": False, "resolved": False}


def test_general_plugin_registers_the_op_for_the_dispatch_key_and_the_run_time(interpreter):
    """After the general plugins the custom op has a PrivateUse1 kernel, and the fallback has a module to ask."""
    program = """
import platforms
platforms.load_general_plugins()
import torch
p = platforms.current_platform
told = {
    "kernel": torch._C._dispatch_has_kernel_for_dispatch_key("dummy_platform::paged_attention", p.dispatch_key),
    "synchronize": p.synchronize is torch.privateuseone.synchronize,
    "count": p.device_count(),
}
"""
    assert _ask(interpreter, program) == {"kernel": True, "synchronize": True, "count": 1}


def test_attention_over_the_paged_cache_equals_attention_over_the_whole(interpreter):
    """Prefill in two chunks and a decode step give what plain attention over all tokens gives."""
    program = """
import dummy_platform, torch
from platform_abc.components.attention import CommonAttentionMetadata
from dummy_platform.attention import DummyAttentionBackend as B
from torch.nn.functional import scaled_dot_product_attention as sdpa
torch.manual_seed(0)
total, heads, kv, size, block = 21, 4, 2, 8, 8
q, k, v = (torch.randn(total, n, size) for n in (heads, kv, kv))
cache = torch.full(B.get_kv_cache_shape(6, block, kv, size), float("nan"))
table = torch.tensor([[4, 1, 3]])
slots = torch.tensor([int(table[0, i // block]) * block + i % block for i in range(total)])
impl = B.get_impl_cls()(heads, size, size**-0.5, kv)
builder = B.get_builder_cls()(None, ["layer"], None, torch.device("cpu"))
parts = []
for start, end in ((0, 9), (9, 20), (20, 21)):
    batch = CommonAttentionMetadata(
        query_start_loc=torch.tensor([0, end - start]), seq_lens=torch.tensor([end]), block_table=table,
        slot_mapping=slots[start:end], num_reqs=1, num_actual_tokens=end - start,
        max_query_len=end - start, max_seq_len=end,
    )
    out = torch.empty(end - start, heads, size)
    got = impl.forward(None, q[start:end], k[start:end], v[start:end], cache, builder.build(0, batch), out)
    assert got is out
    parts.append(out)
want = sdpa(*(t.transpose(0, 1)[None] for t in (q, k, v)), is_causal=True, enable_gqa=True)[0].transpose(0, 1)
told = {"error": float((torch.cat(parts) - want).abs().max())}
"""
    assert _ask(interpreter, program)["error"] < 1e-5


@pytest.mark.parametrize("executor", ["uni", pytest.param("mp", marks=pytest.mark.deep)])
def test_engine_generates_on_the_dummy_what_it_generates_on_the_cpu(interpreter, tmp_path, executor):
    """The reference engine runs on the example's worker, attention and op, also over processes."""
    program = tmp_path / "generate.py"
    program.write_text("""
import json, sys
from reference_engine.args import EngineArgs
from reference_engine.engine import Engine

if __name__ == "__main__":
    with Engine(EngineArgs(executor=sys.argv[1], dtype="float32")) as engine:
        results = engine.generate([[1, 2, 3], [4, 5]])
        print("ANSWER", json.dumps([engine.config.parallel_config.worker_cls, [list(r.tokens) for r in results]]))
""")

    def run(**env: str) -> list:
        told = python(str(program), executor, exe=interpreter, env=env)
        return json.loads(next(line for line in told.splitlines() if line.startswith("ANSWER "))[7:])

    worker, tokens = run()
    assert worker == "dummy_platform.worker.DummyWorker"
    cpu_worker, cpu_tokens = run(PLATFORM_ABC_TARGET_DEVICE="cpu")
    assert cpu_worker == "platforms.components.worker.DeviceWorker"
    assert tokens == cpu_tokens
    assert all(tokens)


@pytest.mark.deep
def test_kit_finds_no_fault(interpreter, tmp_path):
    """Nothing fails, and of what needs no device nothing is skipped: the general plugin makes the device known."""
    report = tmp_path / "report.json"
    told = python(
        *("-m", "pytest", "--pyargs", "conformance", "--platform", "dummy_platform.platform:DummyPlatform"),
        f"--conformance-report={report}",
        "--conformance-require=contract",
        exe=interpreter,
        cwd=tmp_path,
    )
    read = json.loads(report.read_text())
    assert read["verdict"] in {"conformant", "partial"}, told
    assert [c["id"] for c in read["checks"] if c["outcome"] in {"fail", "error", "xfail", "xpass"}] == [], (
        told
    )
    skipped = [c["id"] for c in read["checks"] if c["outcome"] in {"skipped", "not-run"}]
    levels = {c["id"]: c["level"] for c in read["checks"]}
    assert [one for one in skipped if levels[one] in {"static", "contract"}] == [], told
    # It is simulated: torch cannot put a tensor on it.
    assert read["platform"]["device"] == "Dummy Accelerator 1"
    assert "device.set-device" not in skipped
    assert "device.seed" in skipped
