"""Sham checks that attack the process they run in; written into a folder as the module `shams`."""

ATTACKS = """
import ctypes, os, pathlib, signal, subprocess, sys, threading, time

def attack(name):
    def register(func):
        sham(f"identity.{name}", func)
        return func
    return register

@attack("segfault")
def _(ctx): ctypes.string_at(0)

@attack("exit-zero")
def _(ctx): os._exit(0)

@attack("exit-three")
def _(ctx): os._exit(3)

@attack("sys-exit")
def _(ctx): sys.exit(5)

@attack("interrupt")
def _(ctx): raise KeyboardInterrupt

@attack("hang")
def _(ctx): time.sleep(1000)

@attack("deaf-hang")
def _(ctx):
    for number in (signal.SIGABRT, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1)

@attack("abort")
def _(ctx): os.abort()

@attack("kill-self")
def _(ctx): os.kill(os.getpid(), 9)

@attack("stop-self")
def _(ctx): os.kill(os.getpid(), signal.SIGSTOP)

@attack("prints")
def _(ctx):
    print("loud" * 1000)
    os.write(1, b"x" * 3_000_000)
    sys.stdout.flush()
    print("the last word", file=sys.stderr)
    raise ctx.fail("a", contract_says="b", platform_did="c", hint="d")

@attack("closes-fds")
def _(ctx): os.closerange(0, 100_000)

@attack("closes-and-reuses-fds")
def _(ctx):
    os.closerange(3, 100_000)
    for number in range(400):
        os.open("/dev/null", os.O_RDWR)

@attack("replaces-stdout")
def _(ctx):
    class Sulky:
        def write(self, text): raise RuntimeError("no")
        def flush(self): raise RuntimeError("no")
    sys.stdout = sys.stderr = Sulky()

@attack("closes-stdout")
def _(ctx):
    sys.stdout.close()
    sys.stderr.close()

@attack("forks")
def _(ctx):
    if os.fork() == 0:
        time.sleep(1000)

@attack("daemon")
def _(ctx):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            pathlib.Path("daemon.pid").write_text(str(os.getpid()))
            time.sleep(1000)
        os._exit(0)
    while not pathlib.Path("daemon.pid").exists():
        time.sleep(0.01)

@attack("child-of-its-own")
def _(ctx): subprocess.Popen(["sleep", "1000"], start_new_session=True)

@attack("fork-answers-twice")
def _(ctx):
    os.fork()

@attack("threads")
def _(ctx): threading.Thread(target=time.sleep, args=(1000,)).start()

@attack("atexit")
def _(ctx):
    import atexit
    atexit.register(lambda: time.sleep(1000))

@attack("patches-os")
def _(ctx):
    os._exit = os.write = os.read = lambda *a: None

@attack("environment")
def _(ctx):
    os.environ["ACME_LEAK"] = "1"
    os.chdir("/")
    import logging
    logging.root.setLevel(1)
    ctx.platform_cls.leak = 1
    sys.path.clear()

@attack("no-environment")
def _(ctx):
    assert "ACME_LEAK" not in os.environ
    assert not hasattr(ctx.platform_cls, "leak")
    assert sys.path

@attack("patches-torch")
def _(ctx):
    import torch
    torch.zeros = None

@attack("torch-is-whole")
def _(ctx):
    import torch
    assert torch.zeros(1).item() == 0

@attack("takes-a-signal")
def _(ctx):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.alarm(1)
    time.sleep(2)

@attack("kills-its-parent")
def _(ctx):
    os.kill(os.getppid(), 9)
    time.sleep(1000)

@attack("stops-its-parent")
def _(ctx):
    os.kill(os.getppid(), signal.SIGSTOP)

@attack("raises-in-platform")
def _(ctx): ctx.platform_cls.trip()

@attack("raises-oddly")
def _(ctx):
    class Odd(Exception):
        def __str__(self): raise ValueError
    raise Odd

@attack("odd-details")
def _(ctx):
    ctx.details["x"] = object()
    ctx.details["y"] = {1: {2}}
    ctx.details["z"] = "\\udc80"
    ctx.details["n"] = float("nan")
    ctx.details[("a", 1)] = {("b", 2): ctx.details}

@attack("fresh-answer")
def _(ctx):
    assert ctx.fresh("shams:double", 21) == 42

@attack("fresh-exit")
def _(ctx): ctx.fresh("shams:leave")

@attack("fresh-hang")
def _(ctx): ctx.fresh("shams:hang", timeout=1)

@attack("fresh-raise")
def _(ctx): ctx.fresh("shams:trip")

@attack("fresh-is-fresh")
def _(ctx):
    seen = ctx.fresh("shams:surroundings")
    assert seen["acme"] is False, seen
    assert seen["threads"] == os.environ.get("ACME_THREADS"), seen
    assert seen["cwd"] == os.getcwd()

@attack("fresh-slow")
def _(ctx): assert ctx.fresh("shams:slow", timeout=30) == "slow"

@attack("beside")
def _(ctx):
    pathlib.Path("beside").write_text(f"{os.getpid()} {os.getppid()}")
    while pathlib.Path("beside").exists():
        time.sleep(0.01)

@attack("releases")
def _(ctx): pathlib.Path("beside").unlink()

def slow():
    time.sleep(5)
    return "slow"
def double(x): return x * 2
def leave(): os._exit(0)
def hang(): time.sleep(1000)
def trip(): raise LookupError("in the fresh one")
def surroundings():
    return {"acme": "acme" in sys.modules, "threads": os.environ.get("OMP_NUM_THREADS"), "cwd": os.getcwd()}
"""
