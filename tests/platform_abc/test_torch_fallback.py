"""The torch fallback: live objects, None after one log line, dunder names, and what must not be swallowed."""

from __future__ import annotations

import copy
import logging
import pickle
import sys
import threading
from types import ModuleType

import pytest

from platform_abc import Platform
from platform_abc.torch_fallback import TORCH_NAMES, TorchName, TorchNamesLike
from tests.platform_abc.contract_platforms import Complete


class FakeDevice(ModuleType):
    """Stands for `torch.fake`; reading `broken` raises, as torch does when a driver is missing."""

    @property
    def broken(self) -> object:
        """Raise."""
        raise RuntimeError("no driver")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """Put a torch with one device module in the place of the real one."""
    torch = ModuleType("torch")
    module = FakeDevice("torch.fake")
    torch.fake = module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    return module


@pytest.fixture
def platform() -> Platform:
    """Make a platform of a class of its own, so that nothing was logged for it yet."""

    class Fake(Complete):
        device_type = "fake"

    return Fake()


NAMES = ["synchronize", "undeclared"]


@pytest.mark.parametrize("name", NAMES)
class TestEveryName:
    """What holds for declared and undeclared names alike."""

    def test_the_answer_is_the_very_object_of_torch(
        self, device: FakeDevice, platform: Platform, name: str
    ) -> None:
        """No wrapper and no copy."""
        value = object()
        setattr(device, name, value)
        assert getattr(platform, name) is value

    def test_a_replaced_object_is_seen(self, device: FakeDevice, platform: Platform, name: str) -> None:
        """Nothing is kept from the first read."""
        for value in (object(), object()):
            setattr(device, name, value)
            assert getattr(platform, name) is value

    def test_a_name_that_torch_gets_later_is_seen(
        self, device: FakeDevice, platform: Platform, name: str
    ) -> None:
        """Also after it was logged as missing; and None again when it is gone."""
        assert getattr(platform, name) is None
        setattr(device, name, 1)
        assert getattr(platform, name) == 1
        delattr(device, name)
        assert getattr(platform, name) is None

    def test_falsy_objects_are_objects(self, device: FakeDevice, platform: Platform, name: str) -> None:
        """An empty tuple of generators is an answer."""
        setattr(device, name, ())
        assert getattr(platform, name) == ()

    @pytest.mark.usefixtures("device")
    def test_a_missing_name_is_none_and_logged_once(
        self, platform: Platform, name: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The line names the class, the name and where it was looked for."""
        assert [getattr(platform, name) for _ in range(3)] == [None] * 3
        assert [record.getMessage() for record in caplog.records] == [
            f"Fake has no attribute {name!r}, and torch.fake has none either; reading it gives None"
        ]
        assert caplog.records[0].levelno == logging.WARNING

    def test_none_in_torch_counts_as_missing(self, device: FakeDevice, platform: Platform, name: str) -> None:
        """torch sets functions to None that a build lacks."""
        setattr(device, name, None)
        assert getattr(platform, name) is None
        assert not platform.has_runtime(name)

    def test_torch_without_the_device_is_none(
        self,
        device: FakeDevice,
        platform: Platform,
        name: str,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The line says that the whole module is missing."""
        monkeypatch.delattr(sys.modules["torch"], "fake")
        assert getattr(platform, name) is None
        assert "there is no torch.fake" in caplog.text

    def test_without_torch_the_answer_is_none(
        self, platform: Platform, name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One line says why; nothing is raised."""
        monkeypatch.setitem(sys.modules, "torch", None)
        assert [getattr(platform, name) for _ in range(2)] == [None, None]
        assert len(caplog.records) == 1
        assert "ModuleNotFoundError" in caplog.text
        assert not platform.has_runtime(name)

    @pytest.mark.parametrize("device_type", ["", "no such device", None, 7])
    @pytest.mark.usefixtures("device")
    def test_a_strange_device_type_is_none(self, name: str, device_type: object) -> None:
        """Reading a name never raises."""

        class Strange(Complete):
            pass

        Strange.device_type = device_type  # type: ignore[assignment]
        assert getattr(Strange(), name) is None

    def test_an_instance_may_have_its_own(self, device: FakeDevice, platform: Platform, name: str) -> None:
        """Tests patch instances."""
        setattr(device, name, 1)
        setattr(platform, name, 2)
        assert getattr(platform, name) == 2

    @pytest.mark.usefixtures("device")
    def test_threads_log_a_missing_name_once(
        self, platform: Platform, name: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Sixteen readers at the same time, one line."""
        start = threading.Barrier(16)

        def read() -> None:
            start.wait(10)
            assert getattr(platform, name) is None

        threads = [threading.Thread(target=read) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert len(caplog.records) == 1

    @pytest.mark.usefixtures("device")
    def test_each_class_has_its_own_log_line(self, name: str, caplog: pytest.LogCaptureFixture) -> None:
        """Two platforms in one process are two findings."""

        class One(Complete):
            device_type = "fake"

        class Two(One):
            pass

        assert [getattr(One(), name), getattr(Two(), name), getattr(One(), name)] == [None] * 3
        assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == [
            "One",
            "Two",
        ]


@pytest.mark.usefixtures("device")
def test_a_name_on_which_torch_raises_is_none(platform: Platform, caplog: pytest.LogCaptureFixture) -> None:
    """torch runs code when some names are read; the line carries its error."""
    assert platform.broken is None  # type: ignore[attr-defined]
    assert "torch.fake cannot be asked (RuntimeError: no driver)" in caplog.text


@pytest.mark.usefixtures("device")
def test_a_declared_name_on_which_torch_raises_is_none(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The descriptor keeps the same promise."""

    def fail(module: object) -> object:
        raise OSError("driver gone")

    monkeypatch.setattr(FakeDevice, "synchronize", property(fail), raising=False)
    assert platform.synchronize is None  # type: ignore[comparison-overlap]


class TestDunderNames:
    """Dunder names are Python's business."""

    @pytest.mark.parametrize("name", ["__deepcopy__", "__fancy__", "__len__", "__torch_function__"])
    def test_they_raise(self, device: FakeDevice, platform: Platform, name: str) -> None:
        """Even when torch has such a name."""
        setattr(device, name, 1)
        with pytest.raises(AttributeError, match=name):
            getattr(platform, name)
        assert not hasattr(platform, name)
        assert not platform.has_runtime(name)

    def test_platforms_can_be_pickled_and_copied(self) -> None:
        """Executors pickle what they hold."""
        platform = Complete()
        platform.note = [1]  # type: ignore[attr-defined]
        for again in (pickle.loads(pickle.dumps(platform)), copy.copy(platform), copy.deepcopy(platform)):
            assert type(again) is Complete
            assert again.note == [1]

    def test_a_mangled_private_name_is_an_ordinary_name(self, device: FakeDevice, platform: Platform) -> None:
        """Only two underscores at both ends make a dunder name."""
        device.__private = 1  # type: ignore[attr-defined]
        assert getattr(platform, "_TestDunderNames__private") == 1
        assert getattr(platform, "__half") is None


class TestNamesOfTheClass:
    """A name that a class defines is never asked of torch."""

    def test_an_attribute_error_in_a_property_comes_through(self, device: FakeDevice) -> None:
        """It is the error of the property's body, not None and not torch's object of the same name."""
        device.handle = 1  # type: ignore[attr-defined]

        class Broken(Complete):
            device_type = "fake"

            @property
            def handle(self) -> object:
                return object().missing  # type: ignore[attr-defined]

        with pytest.raises(AttributeError, match="'object' object has no attribute 'missing'"):
            _ = Broken().handle

    @pytest.mark.usefixtures("device")
    def test_also_in_a_base_and_in_a_property_of_the_contract(self) -> None:
        """Where the property stands does not matter."""

        class Mixin:
            @property
            def handle(self) -> object:
                raise AttributeError("from the mixin")

        class Broken(Mixin, Complete):
            device_type = "fake"

            @property
            def supported_dtypes(self) -> list[object]:  # type: ignore[override]
                raise AttributeError("no dtypes")

        with pytest.raises(AttributeError, match="from the mixin"):
            _ = Broken().handle
        with pytest.raises(AttributeError, match="no dtypes"):
            _ = Broken().supported_dtypes

    def test_also_in_a_property_that_replaces_a_declared_name(self, device: FakeDevice) -> None:
        """A platform may define a name that torch has."""
        device.Stream = int  # type: ignore[attr-defined]

        class Broken(Complete):
            device_type = "fake"

            @property
            def Stream(self) -> object:  # type: ignore[override]
                raise AttributeError("no streams")

        with pytest.raises(AttributeError, match="no streams"):
            _ = Broken().Stream

    @pytest.mark.usefixtures("device")
    def test_also_in_a_property_that_was_put_on_the_class_later(self, platform: Platform) -> None:
        """The class is looked at, not a copy of it."""
        assert platform.late is None  # type: ignore[attr-defined]

        def fail(_: object) -> object:
            raise AttributeError("late")

        class Later(Complete):
            device_type = "fake"

        Later.late = property(fail)  # type: ignore[attr-defined]
        with pytest.raises(AttributeError, match="late"):
            _ = Later().late  # type: ignore[attr-defined]

    @pytest.mark.usefixtures("device")
    def test_other_errors_of_a_property_come_through_at_once(self) -> None:
        """The body runs once."""
        runs: list[int] = []

        class Broken(Complete):
            device_type = "fake"

            @property
            def handle(self) -> object:
                runs.append(1)
                raise ValueError("no handle")

        with pytest.raises(ValueError, match="no handle"):
            _ = Broken().handle
        assert runs == [1]


class TestWithoutDeviceType:
    """An instance whose class sets no device type; it can only be made behind ABCMeta's back."""

    @pytest.fixture
    def bare(self) -> Platform:
        """Make an instance of an abstract class, as unpickling could."""

        class Bare(Platform, abstract=True):
            pass

        Bare.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
        return object.__new__(Bare)

    def test_the_attribute_itself_is_an_error_that_says_what_to_write(self, bare: Platform) -> None:
        """It does not recurse."""
        with pytest.raises(AttributeError, match=r"Bare.device_type is not set; write `device_type = "):
            _ = bare.device_type
        assert not bare.has_runtime("device_type")

    @pytest.mark.usefixtures("device")
    @pytest.mark.parametrize("name", NAMES)
    def test_any_other_name_is_none(self, bare: Platform, name: str) -> None:
        """Reading never raises."""
        assert getattr(bare, name) is None


class TestComputedDeviceType:
    """A device type that is computed, against the contract."""

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.filterwarnings("ignore::platform_abc.ContractWarning")
    def test_it_is_used(self, device: FakeDevice, name: str) -> None:
        """The answer comes from where it points."""
        setattr(device, name, 1)

        class Computed(Complete):
            @property
            def device_type(self) -> str:  # type: ignore[override]
                return "fake"

        assert getattr(Computed(), name) == 1

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.filterwarnings("ignore::platform_abc.ContractWarning")
    @pytest.mark.usefixtures("device")
    @pytest.mark.timeout(60)
    def test_one_that_reads_names_itself_does_not_recurse(self, name: str) -> None:
        """Inside, the name is None; outside, reading goes on."""
        runs: list[object] = []

        class Recursive(Complete):
            @property
            def device_type(self) -> str:  # type: ignore[override]
                runs.append(getattr(self, name))
                return "fake"

        assert getattr(Recursive(), name) is None
        assert runs == [None]


@pytest.mark.parametrize("cls", [Platform, Complete])
def test_only_a_computed_device_type_takes_the_slow_way(cls: type) -> None:
    """The declared names of an ordinary platform are the quick descriptors."""
    found = {
        name: type(next(vars(base)[name] for base in cls.__mro__ if name in vars(base)))
        for name in TORCH_NAMES
    }
    assert set(found.values()) == {TorchName}


class TestHasRuntime:
    """`has_runtime` tells what hasattr cannot."""

    def test_it_is_true_for_what_the_platform_or_torch_has(
        self, device: FakeDevice, platform: Platform
    ) -> None:
        """Members, torch's names, and what is set on the instance."""
        device.synchronize = print  # type: ignore[attr-defined]
        device.undeclared = 0  # type: ignore[attr-defined]
        platform.own = 0  # type: ignore[attr-defined]
        for name in (
            "synchronize",
            "undeclared",
            "own",
            "get_device_name",
            "supported_dtypes",
            "device_type",
        ):
            assert platform.has_runtime(name), name

    @pytest.mark.usefixtures("device")
    def test_it_is_false_where_reading_gives_none(
        self, platform: Platform, caplog: pytest.LogCaptureFixture
    ) -> None:
        """hasattr says yes to all of them; asking logs nothing."""
        for name in ("mem_get_info", "undeclared", "broken"):
            assert not platform.has_runtime(name), name
        assert not caplog.records
        assert hasattr(platform, "undeclared")

    @pytest.mark.parametrize("name", NAMES)
    def test_a_none_hides_what_torch_has(self, device: FakeDevice, platform: Platform, name: str) -> None:
        """Reading gives None, so there is nothing; on the class as on the instance."""
        setattr(device, name, print)
        for owner in (platform, type(platform)):
            assert type(platform)().has_runtime(name)
            setattr(owner, name, None)
            assert not platform.has_runtime(name)

    @pytest.mark.usefixtures("device")
    def test_it_runs_no_property(self) -> None:
        """A property may be slow, or fail."""

        class Lazy(Complete):
            device_type = "fake"

            @property
            def handle(self) -> object:
                raise AssertionError("was run")

        assert Lazy().has_runtime("handle")


class TestDeclaredNames:
    """The names that engines read."""

    def test_they_can_be_read_on_the_class(self, device: FakeDevice, platform: Platform) -> None:
        """Class methods of a platform count devices."""
        device.device_count = lambda: 3  # type: ignore[attr-defined]
        assert type(platform).device_count() == 3

    @pytest.mark.usefixtures("device")
    def test_a_missing_one_is_none_on_the_class_too(
        self, platform: Platform, caplog: pytest.LogCaptureFixture
    ) -> None:
        """With the same log line."""
        assert type(platform).device_count is None  # type: ignore[comparison-overlap]
        assert "Fake has no attribute 'device_count'" in caplog.text

    def test_a_platform_may_override_them(self, device: FakeDevice) -> None:
        """With any kind of method."""
        device.device_count = lambda: 3  # type: ignore[attr-defined]

        class Own(Complete):
            device_type = "fake"

            @classmethod
            def device_count(cls) -> int:
                return 1

            @staticmethod
            def current_device() -> int:
                return 0

            def synchronize(self) -> None:
                """Nothing to wait for."""

        assert (Own().device_count(), Own.device_count(), Own().current_device()) == (1, 1, 0)
        assert Own().has_runtime("synchronize")

    def test_both_lists_have_the_same_names(self) -> None:
        """What a vendor may override is what an engine may read."""
        declared = {name for name in vars(TorchNamesLike) if not name.startswith("_")}
        assert declared == set(TORCH_NAMES)

    @pytest.mark.torch
    def test_torch_really_has_them_somewhere(self) -> None:
        """Each name exists in some module of the installed torch."""
        import torch

        for name in TORCH_NAMES:
            assert hasattr(torch.cuda, name), name


def test_a_class_that_skips_the_hook_of_its_base_works_all_the_same(device: FakeDevice) -> None:
    """A vendor may define `__init_subclass__` and forget to call the next one."""

    class Rude(Complete):
        device_type = "fake"

        def __init_subclass__(cls, **kwargs: object) -> None:
            """Call nothing."""

    class Child(Rude):
        @property
        def handle(self) -> object:
            raise AttributeError("child's own")

    device.found = 1  # type: ignore[attr-defined]
    assert Child().found == 1  # type: ignore[attr-defined]
    assert Child().missing is None  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="child's own"):
        _ = Child().handle
