"""lit over the IR tests: which files are tests, which tools their RUN lines may name."""

import os
import pathlib

import lit.formats

config.name = "Scalify"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "install", "python", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.scalify_build, "test", "lit")

# LLVM's own tools go by their plain names; Debian's /usr/bin holds another version of them.
binaries = os.path.join(config.scalify_build, "bin")
config.environment["PATH"] = os.pathsep.join(
    [binaries, config.llvm_tools_dir, os.environ.get("PATH", "")]
)
config.environment["FILECHECK_OPTS"] = "-enable-var-scope --allow-unused-prefixes=false"
config.environment["PYTHONPATH"] = os.path.join(config.scalify_source, "python")
config.environment["SCALIFY_VERIFY_EACH"] = "1"
config.environment["SCALIFY_BUILD"] = config.scalify_build

# Each also verifies after each pass, and checks that its input prints and parses back equal:
# Debian's MLIR has no assertions that would tell.
opt = os.path.join(binaries, "scalify-opt") + " --verify-each --verify-roundtrip"
config.substitutions += [
    (r"(?<![\w/.-])scalify-opt(?![\w.-])", opt),
    ("%python", config.python),
    ("%scalify_build", config.scalify_build),
    ("%scalify_source", config.scalify_source),
]

# Features that gate a test: each tool by its own name, and what the machine can run.
for tool in pathlib.Path(binaries).glob("scalify-*"):
    config.available_features.add(tool.name)
with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
    flags = next((line.split() for line in cpuinfo if line.startswith("flags")), [])
if {"avx2", "fma", "f16c", "bmi2"} <= set(flags):
    config.available_features.add("x86-64-v3")
