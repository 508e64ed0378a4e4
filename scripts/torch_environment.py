"""Makes an environment with PyTorch, and runs the tests of scalify.torch or a script there.

    python scripts/torch_environment.py test [OPTIONS OF PYTEST]
    python scripts/torch_environment.py SCRIPT [ITS OPTIONS]

The tests are those of the tutorials and of the installed wheel too. The environment is kept in
build/torch. PyTorch is installed without the libraries of CUDA that its wheel asks for, if it can
be imported so; else with all of them.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "torch"

# torchax 0.0.13 uses names that PyTorch 2.12 and later lack.
TORCH = ("torch==2.11.0", "torchax==0.0.13")
REQUIREMENTS = ("requirements.txt", "requirements-torch.txt")


def environment() -> pathlib.Path:
    """Returns the interpreter of the environment, which is made or brought up to date."""
    python, ready = FOLDER / "bin" / "python", FOLDER / "ready"
    wanted = "\n".join([*TORCH, *((ROOT / name).read_text() for name in REQUIREMENTS)])
    if ready.exists() and ready.read_text() == wanted:
        return python
    print(f"torch: installing {' '.join(TORCH)} into {FOLDER.relative_to(ROOT)}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    listed = [part for name in REQUIREMENTS for part in ("-r", str(ROOT / name))]
    subprocess.run([*install, *listed], check=True)
    subprocess.run([*install, "--no-deps", *TORCH], check=True)
    found = subprocess.run([str(python), "-c", "import torch"], capture_output=True, text=True)
    if found.returncode:
        print(f"torch: installing its libraries too: {found.stderr.splitlines()[-1]}")
        subprocess.run([*install, *TORCH], check=True)
    ready.write_text(wanted)
    return python


def main() -> int:
    """Returns the exit status of pytest or of the script."""
    what, *options = sys.argv[1:] or ["test"]
    command = [str(environment())]
    if what == "test":
        folder = ROOT / "test" / "python"
        # Tutorials have blocks for PyTorch, the wheel ten lines of it; torchrun is a launcher.
        installed = "test_install.py::test_ten_lines_of_torch_train_in_fp8"
        names = ("test_tutorials.py", "test_launchers.py", installed)
        others = [str(folder / name) for name in names]
        tests = [*sorted(map(str, folder.glob("test_torch*.py"))), *others]
        command += ["-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    else:
        command.append(what)
    extra = {
        "PYTHONPATH": str(ROOT / "python"),
        "SCALIFY_BUILD": os.environ.get("SCALIFY_BUILD", str(ROOT / "build")),
    }
    return subprocess.run([*command, *options], env={**os.environ, **extra}).returncode


if __name__ == "__main__":
    sys.exit(main())
