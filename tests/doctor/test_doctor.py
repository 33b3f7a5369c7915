"""The doctor on made-up machines: every state is named, and every problem has a remedy."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tinytrain.cli.commands import doctor as command
from tinytrain.cli.main import main
from tinytrain.doctor import checks as doctor
from tinytrain.doctor import finding as doctorline
from tinytrain.doctor import kernels as doctorcode
from tinytrain.doctor.checks import Subject, examine
from tinytrain.doctor.finding import BAD, OK, STATES, WARNING, Line
from tinytrain.doctor.linux import GET_THROTTLED, LinuxReadings
from tinytrain.kernels.compile_cache import cache as jitcache
from tinytrain.kernels.compile_cache import facts as jitfacts

CPU = "sys/devices/system/cpu/cpu0/cpufreq"
MEMINFO = "MemTotal: {} kB\nMemFree: 1000 kB\nMemAvailable: {} kB\nSwapTotal: 0 kB\n"
CGROUPS = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t1\t1\nmemory\t{}\t28\t{}\n"
SWAPS = "Filename\tType\tSize\tUsed\tPriority\n"
# Raspberry Pi OS after its start: memory controller off, idle clock, no throttling.
PI = {
    "sys/firmware/devicetree/base/model": "Raspberry Pi Zero 2 W Rev 1.0\0",
    "proc/cpuinfo": "processor\t: 0\nCPU part\t: 0xd03\n\nModel\t: Raspberry Pi Zero 2 W\n",
    "proc/meminfo": MEMINFO.format(437000, 300000),
    "proc/swaps": SWAPS + "/dev/zram0 partition 437244 0 100\n",
    "proc/cgroups": CGROUPS.format(0, 0),
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io pids\n",
    f"{CPU}/scaling_governor": "ondemand\n",
    f"{CPU}/scaling_driver": "cpufreq-dt\n",
    f"{CPU}/scaling_max_freq": "1000000\n",
    f"{CPU}/cpuinfo_max_freq": "1000000\n",
    GET_THROTTLED: "0\n",
    "sys/class/thermal/thermal_zone0/temp": "48312\n",
    "sys/class/thermal/thermal_zone0/trip_point_0_type": "critical\n",
    "sys/class/thermal/thermal_zone0/trip_point_0_temp": "110000\n",
}
SERVER = {
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC\n\n",
    "proc/meminfo": MEMINFO.format(25_000_000, 20_000_000),
    "proc/swaps": SWAPS,
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
}


def space(free=10**9, flag=0, files=10**6):
    return lambda path: SimpleNamespace(
        f_bavail=free // 4096, f_frsize=4096, f_flag=flag, f_files=10**6, f_favail=files
    )


@pytest.fixture
def examined(tmp_path, monkeypatch):
    """Lines by name for a machine with these files, without the checks of numpy and numba."""
    monkeypatch.setattr(doctor, "CHECKS", [c for c in doctor.CHECKS if c.__module__ != doctorcode.__name__])

    def examined(files, **options):
        for path, text in files.items():
            if text is not None:
                (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / path).write_text(text)
        system = LinuxReadings(tmp_path)
        subject = Subject(system, tmp_path / "cache", tmp_path, options.pop("statvfs", space()))
        lines = examine(subject)
        for line in lines:
            assert line.state in STATES and line.value and "\n" not in line.value
            assert (line.remedy is None) == (line.state == OK), line
        return {line.name: line for line in lines}

    return examined


def state(lines, name):
    return lines[name].state, lines[name].value


def test_a_pi_as_it_comes_lacks_only_the_memory_controller(examined):
    lines = examined(PI)
    assert [name for name, line in lines.items() if line.state != OK] == ["cgroups"]
    assert "cmdline.txt" in lines["cgroups"].remedy and "Pi Zero 2 W" in lines["cpu"].value
    assert "zram0 447.7 MB" in lines["swap"].value and lines["temperature"].value.startswith("48 °C")


def test_a_server_is_well(examined):
    lines = examined(SERVER)
    assert all(line.state == OK for line in lines.values()) and "throttling" not in lines


def test_a_container_without_sys_and_proc_is_looked_at_without_a_traceback(examined):
    lines = examined({})
    assert {name for name, line in lines.items() if line.state != OK} == {"memory", "cgroups"}
    assert lines["cgroups"].value == "cannot be read"


def test_files_of_nonsense_are_like_missing_ones(examined):
    lines = examined(dict.fromkeys((*PI, "proc/self/cgroup"), "\0\xff nonsense : : \n-1 x"))
    assert "memory" in lines and "throttling" not in lines and "temperature" not in lines


@pytest.mark.parametrize(
    "bits,wanted,words",
    [
        ("0", OK, "none"),
        ("50005", BAD, "under-voltage now"),
        ("0xe0008", WARNING, "slowed down now"),
        ("50000", WARNING, "under-voltage since start"),
        ("20000", WARNING, "was slowed down since start"),
    ],
)
def test_throttling_names_the_worst_first(examined, bits, wanted, words):
    line = examined({**PI, GET_THROTTLED: bits + "\n"})["throttling"]
    assert line.state == wanted and words in line.value


@pytest.mark.parametrize(
    "free,limit,wanted",
    [(300_000, None, OK), (150_000, None, WARNING), (40_000, None, BAD), (300_000, "50000000", BAD)],
)
def test_memory_is_judged_by_free_memory_and_by_the_limit(examined, free, limit, wanted):
    group = {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": limit or "max\n"}
    assert examined({**PI, **group, "proc/meminfo": MEMINFO.format(437000, free)})["memory"].state == wanted


def test_a_small_machine_without_swap_is_warned(examined):
    line = examined({**PI, "proc/swaps": SWAPS})["swap"]
    assert line.state == WARNING and "zram" in line.remedy


@pytest.mark.parametrize(
    "files,wanted",
    [
        ({"proc/cgroups": CGROUPS.format(4, 1), "sys/fs/cgroup/memory/tasks": ""}, (OK, "is on (v1)")),
        ({"proc/cgroups": CGROUPS.format(4, 1)}, (WARNING, "is not mounted")),
        ({"proc/cgroups": CGROUPS.format(0, 0)}, (WARNING, "is off")),
        ({"proc/cgroups": "#\ncpu\t1\t1\t1\n"}, (WARNING, "is off")),
        ({"sys/fs/cgroup/cgroup.controllers": "cpu memory"}, (OK, "is on (v2)")),
    ],
)
def test_the_memory_controller_is_looked_up_in_both_versions(examined, files, wanted):
    found = examined(files)["cgroups"]
    assert found.state == wanted[0] and wanted[1] in found.value


def test_a_slow_governor_is_a_warning_unless_the_processor_scales_itself(examined):
    slow = {**PI, f"{CPU}/scaling_governor": "powersave\n"}
    assert examined(slow)["governor"].state == WARNING
    assert examined({**slow, f"{CPU}/scaling_driver": "intel_pstate\n"})["governor"].state == OK
    capped = examined({**PI, f"{CPU}/scaling_max_freq": "600000\n"})["governor"]
    assert capped.state == WARNING and "capped at 600 of 1000 MHz" in capped.value


@pytest.mark.parametrize(
    "degrees,passive,wanted", [(79, None, OK), (80, None, WARNING), (90, None, BAD), (62, 60, WARNING)]
)
def test_heat_is_judged_by_the_machines_own_limits(examined, degrees, passive, wanted):
    zone = "sys/class/thermal/thermal_zone1"
    files = {f"{zone}/temp": f"{degrees}000\n"}
    if passive:
        files |= {f"{zone}/trip_point_0_type": "passive\n", f"{zone}/trip_point_0_temp": f"{passive}000\n"}
    assert examined({**PI, **files})["temperature"].state == wanted


@pytest.mark.parametrize(
    "options,states",
    [
        ({}, (OK, OK)),
        ({"free": 40 * 10**6}, (WARNING, WARNING)),
        ({"free": 10**6}, (BAD, BAD)),
        ({"flag": os.ST_RDONLY}, (BAD, BAD)),
        ({"files": 0}, (BAD, BAD)),
    ],
)
def test_disks_need_space_files_and_to_be_writable(examined, options, states):
    lines = examined(SERVER, statvfs=space(**options))
    assert (lines["disk cache"].state, lines["disk folder"].state) == states


def test_a_folder_at_which_nobody_may_look_ends_no_check(tmp_path):
    cache = tmp_path / ("x" * 300)  # an error of the system, as below a folder of somebody else
    lines = examine(Subject(LinuxReadings(tmp_path), cache, tmp_path))
    assert {line.name: line for line in lines}["disk cache"].value.endswith(f"free at {tmp_path}")


def test_a_disk_that_does_not_answer_is_bad(examined):
    def broken(path):
        raise OSError(5, "Input/output error")

    assert state(examined(SERVER, statvfs=broken), "disk folder")[0] == BAD


# ---- numpy, numba, kernels -------------------------------------------------------------------


POOL = "kernels.dense.pool-0123456789abcdef.kernel"


@pytest.fixture
def sealed(tmp_path):
    """A subject with one made-up kernel in its cache, and the folder it lies in."""
    folder = tmp_path / "jit" / jitcache.folder_of(jitfacts.made_for())
    folder.mkdir(parents=True)
    jitcache.Cache(folder, True, None, {}).write(POOL, b"12345678")
    return Subject(LinuxReadings(tmp_path), tmp_path / "jit", tmp_path), folder


def test_kernels_are_verified_damaged_or_absent_and_nothing_is_changed(sealed):
    subject, folder = sealed
    (line,) = doctorcode.kernels(subject)
    assert line.state == OK and line.facts["kernels"] == 1 and line.facts["bytes"] == 8
    code = folder / POOL
    code.write_bytes(b"1234567?")
    (line,) = doctorcode.kernels(subject)
    assert line.state == WARNING and line.facts["state"] == "damaged" and "storage" in line.remedy
    assert code.read_bytes() == b"1234567?"
    (line,) = doctorcode.kernels(Subject(subject.linux, folder.parent / "none", folder))
    assert line.state == WARNING and line.facts["state"] == "absent" and "warmup" in line.remedy
    (line,) = doctorcode.kernels(Subject(subject.linux, code / "below a file", folder))
    assert line.state == BAD and "TINYTRAIN_CACHE" in line.remedy


def test_kernels_that_came_with_the_package_are_looked_at_where_they_lie(sealed, tmp_path, monkeypatch):
    package = tmp_path / "compiled" / "0123456789abcdef"
    package.mkdir(parents=True)
    jitcache.Cache(package, True, None, {}).write(POOL, b"1234")
    monkeypatch.setattr(jitcache, "PACKAGED", package.parent)
    monkeypatch.setattr(doctorcode, "PACKAGED_PROBE", f"print('\"{package}\"')")
    (line,) = doctorcode.kernels(sealed[0])
    assert line.state == OK and "came with the package" in line.value and line.facts["bytes"] == 4
    (package / POOL).write_bytes(b"?")
    (line,) = doctorcode.kernels(sealed[0])
    assert line.state == WARNING and "1 files damaged" in line.value and "install" in line.remedy
    monkeypatch.setattr(doctorcode, "PACKAGED_PROBE", f"print('\"{package}-none\"')")
    (line,) = doctorcode.kernels(sealed[0])
    assert line.facts["bytes"] == 8, "for this processor it brings none"


def test_kernels_of_the_package_are_looked_at_only_if_no_setting_of_numba_asks_for_others(monkeypatch):
    for name in [name for name in os.environ if name.startswith("NUMBA_")]:
        monkeypatch.delenv(name)
    assert doctorcode._asked(doctorcode.PACKAGED_PROBE)[0].startswith(str(jitcache.PACKAGED))
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert doctorcode._asked(doctorcode.PACKAGED_PROBE) == (None, None)


def test_kernels_that_others_could_exchange_are_not_used_and_said_so(sealed, tmp_path):
    tmp_path.chmod(0o777)
    (line,) = doctorcode.kernels(sealed[0])
    assert line.state == BAD and "0 compiled" in line.value and "others may write to" in line.value


def test_verified_kernels_that_can_only_be_read_are_no_disaster(sealed, monkeypatch):
    monkeypatch.setattr(doctorcode, "_writable", lambda path: False)
    (line,) = doctorcode.kernels(sealed[0])
    assert line.state == WARNING and "1 compiled" in line.value and "TINYTRAIN_CACHE" in line.remedy


@pytest.mark.parametrize(
    "stub,words", [("raise ImportError('gone')", "gone"), ("import os; os._exit(9)", "ended with 9")]
)
def test_numba_that_is_broken_does_not_break_the_doctor(tmp_path, monkeypatch, stub, words):
    (tmp_path / "numba.py").write_text(stub)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (line,) = doctorcode.numba(None)
    assert line.state == WARNING and words in line.value and "pip install" in line.remedy


def test_memory_that_may_not_be_made_executable_is_a_warning_whose_remedy_is_the_setting(monkeypatch):
    denied = (
        "from llvmlite import binding\n"
        "def deny(): raise PermissionError(13, 'no')\n"
        "binding.check_jit_execution = deny\n"
    )
    for name in ("PROBE", "CALLS_PROBE"):
        monkeypatch.setattr(doctorcode, name, denied + getattr(doctorcode, name))
    for line in (*doctorcode.numba(None), *doctorcode.calls(None)):
        assert line.state == WARNING and line.value.startswith("this process may not make memory executable")
        assert "MemoryDenyWriteExecute=no" in line.remedy and "pip" not in line.remedy


def test_numba_that_hangs_is_given_up(tmp_path, monkeypatch):
    (tmp_path / "numba.py").write_text("import time; time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(doctorcode, "IMPORT_SECONDS", 0.5)
    assert "timed out" in doctorcode.numba(None)[0].value


@pytest.mark.parametrize(
    "kernels,wanted,words", [(True, OK, "many kernels per call"), (False, WARNING, "each from Python")]
)
def test_kernels_that_python_must_call_one_by_one_are_a_warning(monkeypatch, kernels, wanted, words):
    assert doctorcode.calls(None)[0].facts["kernels"]
    monkeypatch.setattr(doctorcode, "CALLS_PROBE", f"print('{json.dumps({'kernels': kernels})}')")
    (line,) = doctorcode.calls(None)
    assert line.state == wanted and words in line.value
    assert line.remedy is None if wanted == OK else "llvmlite" in line.remedy


def test_a_broken_numpy_is_bad_and_ends_no_doctor(tmp_path):
    (tmp_path / "numpy.py").write_text("raise ImportError('half of it is missing')")
    done = subprocess.run(
        [sys.executable, "-m", "tinytrain", "doctor"],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    (line,) = [row for row in done.stdout.splitlines() if " numpy " in row]
    assert line.startswith("bad") and "half of it is missing" in line
    assert done.returncode == 3 and "Traceback" not in done.stderr


# ---- the command -------------------------------------------------------------------------------


def test_the_command_imports_no_numba_and_agrees_with_its_exit_code():
    code = (
        "import sys; from tinytrain.cli.main import main\n"
        "code = main(['doctor', '--json'])\n"
        "print('numba' in sys.modules, code, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    result = json.loads(done.stdout)
    names = [row["name"] for row in result["checks"]]
    assert {"python", "memory", "numba", "kernels", "calls", "numpy", "cgroups", "disk cache"} <= set(names)
    worst = max(STATES.index(row["state"]) for row in result["checks"])
    assert result["state"] == STATES[worst]
    assert done.stderr.strip() == f"False {3 if result['state'] == BAD else 0}"


def test_text_shows_every_state_and_the_remedy_below(monkeypatch, capsys):
    lines = [Line("a", OK, "good", "unused"), Line("b", BAD, "worse", "do this")]
    monkeypatch.setattr(doctor, "CHECKS", [lambda subject: lines])
    assert main(["doctor"]) == command.UNSUITABLE == 3
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["ok", "a", "good"] and shown[2].split() == ["->", "do", "this"]
    assert doctorline.worst(lines[:1]) == OK and len(shown) == 3
