"""The commands as a user meets them: errors in one line, exit statuses, help, installed or not."""

import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from manifold_shap import cli
from tests.cli.commands import FOREST, ORDERS, QUICK, SHORT

Copy = Callable[..., Path]
ROOT = Path(__file__).parents[2]
QUICK_EXPLAIN = ["instances=2", *ORDERS, "compare=[]", "progress=false"]
CSV = ["data=table", "data.path=t.csv", "data.target=y"]
ENCODER = ["data=iris", *FOREST, "value_function=vae", "value_function.posterior=encoder"]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Runs a command in this process, as it is typed."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")

    def run(name: str, *words: str) -> None:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
        {"train": cli.main_train, "explain": cli.main_explain}[name]()

    yield run
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def failed(typed: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a command says in this process when it fails with exit status 1."""

    def run(name: str, *words: str) -> str:
        with pytest.raises(SystemExit) as exit:
            typed(name, *words)
        assert isinstance(exit.value.code, str)  # Printed to stderr, with status 1.
        assert "\n" not in exit.value.code
        assert "Traceback" not in exit.value.code + capsys.readouterr().err
        return exit.value.code

    return run


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["dta=digits"], "got 'dta'; did you mean 'data'?"),
        (["data.tst=0.3"], "got 'data.tst'; did you mean 'data.test'?"),
        (["value_function.hiden=[3]"], "did you mean 'value_function.hidden'?"),
        (["data=digit"], "Expected data to be one of ['abalone', "),
        (["data=digit"], "but got 'digit'; did you mean 'digits'?"),
        (["+nosuch=1"], "Expected settings among those that --help lists but got 'nosuch'"),
        (["+value_function.wdth=1"], "got 'value_function.wdth'"),
        (["~seed"], "got 'seed' with + or ~; leave that out."),
        (["+trainer.devices=2"], "Expected a setting as trainer.devices=value but got"),
        (["seed"], "Expected settings as key=value but: "),
        (["iris"], "got 'iris'; type data=iris instead."),
        (["--data", "iris"], "got '--data'; type data=iris instead."),
        (["data=table", "data.path=t.csv"], "Expected data.target=..., the column"),
        (["model=file", "model.path=m.onnx", "classifier=mlp"], "but got both; leave one out"),
        (["seed=["], "Expected settings as key=value but: "),
        (["seed=abc"], "Expected `seed`"),
        (["data=table"], "give data.path=...."),
        (["value_function=vae", "value_function.latant=3"], "mean 'value_function.latent'?"),
        (["data=table", "data.taget=y"], "did you mean 'data.target'?"),
        (["value_function=vae", "value_function.taget=y"], "did you mean 'value_function.name'?"),
        (["amortized=default", "amortized.patiense=3"], "did you mean 'amortized.patience'?"),
        (["runs_dir=5"], "Expected `runs_dir` to be text but got 5 (int)"),
        (["runs_dir=null"], "Expected `runs_dir` to be text but got None"),
        (["classifier._target_=no.Such"], "no.Such"),
        (["+classifier.nosuch=1"], "nosuch"),
    ],
)
def test_wrong_words_are_named_in_one_line(
    failed: Callable[..., str], tmp_path: Path, words: list[str], error: str
) -> None:
    assert error in failed("train", f"runs_dir={tmp_path}", *words)
    assert not list(tmp_path.iterdir())


def test_errors_of_explaining_are_one_line(failed: Callable[..., str], tmp_path: Path) -> None:
    said = failed("explain", f"runs_dir={tmp_path}")
    assert said.startswith("FileNotFoundError: Expected a trained classifier")
    assert "got 'estimator.evaluation'; did you mean" in failed("explain", "estimator.evaluation=5")
    assert "Expected `block`" in failed("explain", f"runs_dir={tmp_path}", "block=null")


def test_a_sweep_writes_nothing_outside_its_runs(
    failed: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    monkeypatch.chdir(place)
    sweep = ["-m", "runs_dir=runs", "seed=0,1"]
    for names in ("../../escaped", "../../escaped,../../other"):
        said = failed("train", *sweep, f"data.name={names}")
        assert said.startswith("ValueError: Expected `data.name` to be the name of one directory")
        assert said.endswith("runs_dir=... says where runs lie.")
    assert "`runs_dir` to be text but got None" in failed(
        "train", "-m", "runs_dir=null", "seed=0,1"
    )
    words = ["data=table", "data.path=../../../t.csv", "data.target=y"]
    assert "Expected the file" in failed("train", *sweep, *words)
    home = place / "runs" / "t"
    assert {path.name for path in home.iterdir()} == {"surrogate-sweep"}
    (job,) = [path for path in (home / "surrogate-sweep").iterdir() if path.is_dir()]
    assert job.name.startswith("run__data.path-.._.._.._t.csv__data.target-y__seed-0")
    assert set(place.iterdir()) == {place / "runs"}
    assert {*tmp_path.iterdir(), *place.parent.iterdir()} == {place.parent, place}


def command(*words: str, cwd: Path = ROOT, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, **settings},
        timeout=300,
    )


@pytest.mark.usefixtures("any_type")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([*CSV, "data.path=5"], "`path` to be text but got 5 (int)"),
        ([*CSV, "data.separator=5"], "`separator` to be one character but got 5"),
        ([*CSV, "data.header=maybe"], "`header` to be true or false but got 'maybe'"),
        (["data=mnist", "data.binarize=no"], "`binarize` to be true or false but got 'no'"),
        ([*ENCODER, "value_function.importance=no"], "`importance` to be true or false"),
    ],
)
def test_settings_of_another_type_are_refused(
    failed: Callable[..., str], tmp_path: Path, words: list[str], error: str
) -> None:
    said = failed("train", f"runs_dir={tmp_path}", *words)
    assert said.startswith("TypeError: Expected ") or "character" in said
    assert error in said


def test_a_sweep_and_a_checkpoint_of_it_on_the_command_line(
    typed: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = f"runs_dir={tmp_path}"
    typed("train", "-m", place, "data=iris", *QUICK, *SHORT, "progress=false", "seed=0,1")
    jobs = [path.parent.name for path in tmp_path.rglob("metrics.json")]
    for k in (0, 1):
        assert f"__seed-{k}__" in " ".join(jobs)
    # Of the second seed, whose classifier is another one.
    _, checkpoint = sorted(tmp_path.rglob("surrogate.ckpt"))
    words = [f"checkpoint='{checkpoint}'", "data=iris", "classifier.hidden=[64]", *QUICK_EXPLAIN]
    capsys.readouterr()
    typed("explain", place, *words)
    assert (checkpoint.parent / "summary.json").exists()
    assert capsys.readouterr().out.count("results and plots in") == 1


def test_explaining_waits_for_nothing_that_only_trainings_need(digits: Path, copied: Copy) -> None:
    code = (
        "import runpy, sys; runpy.run_path('explain.py', run_name='__main__'); print(*sys.modules)"
    )
    done = command("-c", code, f"runs_dir={copied(digits)}", *QUICK_EXPLAIN)
    assert done.returncode == 0, done.stderr
    imported = done.stdout.splitlines()[-1].split()
    assert "manifold_shap.surrogate.fit" in imported
    assert not {"lightning", "sklearn", "skops", "torchvision"} & set(imported)


def test_training_networks_imports_no_files_of_estimators(tmp_path: Path) -> None:
    """These import all of scikit-learn, which takes longer than the training."""
    code = "import runpy, sys; runpy.run_path('train.py', run_name='__main__'); print(*sys.modules)"
    done = command("-c", code, f"runs_dir={tmp_path}", *QUICK, *SHORT)
    assert done.returncode == 0, done.stderr
    imported = done.stdout.splitlines()[-1].split()
    assert "lightning" in imported
    assert not {"skops", "sklearn.ensemble"} & set(imported)


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line(
    irises: Path, copied: Copy, typed: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    place = copied(irises, "classifier")
    words = ["data=iris", f"runs_dir={place}", "value_function=marginal", "instances=1"]
    typed("explain", *words, "compare=[]", "value_function.output=ilr")
    said = capsys.readouterr().err
    (line,) = [line for line in said.splitlines() if "are exactly zero" in line]
    assert line.startswith("Warning: ")
    assert ".py:" not in said


def test_flags_in_messages_are_as_they_are_typed(capsys: pytest.CaptureFixture[str]) -> None:
    message = "Removed what was left.\nWith resume=True it would have been continued."
    cli._show_warning(message, UserWarning, "streaming.py", 1)
    expected = "Warning: Removed what was left. With resume=true it would have been continued.\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("name", ["train", "explain"])
def test_help_is_worth_reading_and_does_not_wait_for_torch(name: str) -> None:
    wrong = ["sed=1", "data=digit", "+nosuch=1"]
    code = f"""
import sys
from manifold_shap import cli
for word in {["--help", *wrong]}:
    sys.argv = ["{name}.py", word]
    try:
        cli.main_{name}()
    except SystemExit as exit:
        print(exit.code, file=sys.stderr)
    assert not {{"torch", "numpy", "pandas"}} & set(sys.modules)
"""
    shown = command("-c", code)
    assert shown.returncode == 0
    assert f"python {name}.py data=mnist" in shown.stdout
    assert "What is written" in shown.stdout
    status, *said = shown.stderr.splitlines()
    assert (status, len(said)) == ("0", len(wrong))
    assert all("but got" in line for line in said)


@pytest.mark.skipif(sys.platform != "linux", reason="torch has another OpenMP there")
@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "77"}, "77"), ({"OMP_WAIT_POLICY": "passive"}, "0")],
)
def test_threads_that_wait_leave_the_cores_to_others(
    given: dict[str, str], spins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As OpenMP has understood it, which it says when torch is imported."""
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)  # As a command in this process has set it.
    code = """
import sys
from manifold_shap import cli
sys.argv = ["train.py", "--help"]
try:
    cli.main_train()
except SystemExit:
    import torch
"""
    said = command("-c", code, **{"OMP_DISPLAY_ENV": "VERBOSE", **given}).stderr
    assert f"GOMP_SPINCOUNT = '{spins}'" in said


def test_ctrl_c_is_heard_in_a_finaliser() -> None:
    """Python swallows what is raised there; what waits longer than a test may is interrupted."""
    code = """
import signal, time
from manifold_shap.cli import command

class Finalised:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def task(config):
    Finalised()
    time.sleep(600)

command("explain")(task)()
"""
    done = command("-c", code)
    assert done.returncode == 130
    assert done.stdout == "Interrupted.\n"
    assert "KeyboardInterrupt" not in done.stderr


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_training_at_once(
    digits: Path, copied: Copy, sent: signal.Signals, status: int
) -> None:
    place = copied(digits, "classifier")
    words = [f"runs_dir={place}", *QUICK, *SHORT, "value_function.max_epochs=5000"]
    process = subprocess.Popen(
        [sys.executable, "train.py", *words, "progress=false"],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
    )
    work = place / "digits" / "surrogate.partial"
    deadline = time.monotonic() + 200
    while not (work / "last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    start = time.monotonic()
    process.send_signal(sent)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == status
    assert (work / "best.ckpt").exists()
    assert not (place / "digits" / "surrogate").exists()
    if sent is signal.SIGTERM:
        assert time.monotonic() - start < 3
    else:
        (line,) = [line for line in said.splitlines() if line.startswith("Interrupted")]
        assert "the same command continues from here" in line
        assert "surrogate" not in line


def test_an_installed_package_has_the_commands(digits: Path, tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    built = command("-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    installed, empty = tmp_path / "installed", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    (entries,) = installed.glob("*.dist-info/entry_points.txt")
    assert "manifold-shap-train = manifold_shap.cli:main_train" in entries.read_text()
    door = "import sys; from manifold_shap.cli import main_explain; sys.exit(main_explain())"
    words = [f"runs_dir={digits.resolve()}", "runs_dir=nowhere"]
    done = command("-c", door, *words[1:], cwd=empty, PYTHONPATH=str(installed))
    assert done.returncode == 1
    assert "Expected a trained classifier in nowhere/digits/classifier" in done.stderr
    composed = command("-c", door, "--cfg", "job", cwd=empty, PYTHONPATH=str(installed))
    assert composed.returncode == 0
    assert "name: surrogate" in composed.stdout
    assert not list(empty.iterdir())


@pytest.mark.parametrize(
    "at", ["manifold_shap.cli._check_typed", "hydra.main", "manifold_shap.cli._given"]
)
@pytest.mark.parametrize("masked", [False, True])
def test_an_interruption_is_one_line_wherever_it_comes(
    typed: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    at: str,
    masked: bool,
) -> None:
    """Even where a library's way of ending raises an error of its own."""

    def interrupt(*_: object, **__: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            if masked:
                raise UnboundLocalError("f")

    monkeypatch.setattr(at, interrupt)
    with pytest.raises(SystemExit) as exit:
        typed("explain")
    assert exit.value.code == 130
    assert capsys.readouterr().out == "Interrupted.\n"


def test_a_full_disk_says_what_to_do(
    failed: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "a/place")

    monkeypatch.setattr("manifold_shap.cli.run.Run.__init__", full)
    said = failed("explain", f"runs_dir={tmp_path}")
    assert said.startswith(
        "OSError: [Errno 28] No space left on device: 'a/place'; free some space"
    )
