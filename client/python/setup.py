"""Generates varifocal/v1 from protos/ of the repository while the wheel is built; pyproject.toml has the rest.

With VARIFOCAL_INSTALLED, a directory that `cmake --install` has filled, and VARIFOCAL_PLATFORM, a platform tag, the wheel has
the programs, the shipped models, the manual pages and the completion besides, in the places that they have below a prefix
(deploy/wheel.sh)."""

import importlib.metadata
import os
import pathlib
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

# Generated code needs the runtime of its generator, or a later one.
GENERATOR = importlib.metadata.version("grpcio-tools")
RUNTIME = importlib.metadata.version("protobuf")
# .. at most of the next major version.
PROTOBUF = f"protobuf>={RUNTIME},<{int(RUNTIME.split('.')[0]) + 2}"
REQUIRED = [f"grpcio>={GENERATOR}", f"grpcio-status>={GENERATOR}", PROTOBUF, "pandas>=2", "PyYAML>=6"]
PROTOS = pathlib.Path(__file__).resolve().parents[2] / "protos"
INSTALLED = os.environ.get("VARIFOCAL_INSTALLED")
PARTS = ("bin", "share/varifocal", "share/man", "share/bash-completion")


class BuildWithStubs(build_py):
    def run(self) -> None:
        super().run()
        out = pathlib.Path(self.build_lib)
        files = sorted(str(path.relative_to(PROTOS)) for path in (PROTOS / "varifocal/v1").glob("*.proto"))
        if not files:
            raise FileNotFoundError(f"no .proto files in {PROTOS}: build the wheel inside the repository")
        # Plugins of protoc are scripts beside this interpreter, or on the path that an isolated build sets.
        path = os.pathsep.join([os.environ.get("PATH", ""), str(pathlib.Path(sys.executable).parent)])
        subprocess.run(
            [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}", f"--python_out={out}", f"--grpc_python_out={out}",
             f"--mypy_out={out}", f"--mypy_grpc_out={out}", *files],
            check=True, env={**os.environ, "PATH": path})


class WheelWithPrograms(bdist_wheel):
    """For any Python of one platform."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", os.environ["VARIFOCAL_PLATFORM"]


def installed_files(prefix: pathlib.Path) -> list[tuple[str, list[str]]]:
    """The files of PARTS by their directory."""
    found: dict[str, list[str]] = {}
    for part in PARTS:
        files = [path for path in sorted((prefix / part).rglob("*")) if path.is_file()]
        if not files:
            raise FileNotFoundError(f"no files in {prefix / part}: is it filled by `cmake --install`?")
        for path in files:
            found.setdefault(str(path.parent.relative_to(prefix)), []).append(str(path))
    return sorted(found.items())


extra = {}
commands = {"build_py": BuildWithStubs}
if INSTALLED:
    extra["data_files"] = installed_files(pathlib.Path(INSTALLED).resolve())
    commands["bdist_wheel"] = WheelWithPrograms
setup(install_requires=REQUIRED, cmdclass=commands, **extra)
