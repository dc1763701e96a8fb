"""Generates varifocal/v1 from protos/ of the repository while the wheel is built; pyproject.toml has the rest."""

import importlib.metadata
import os
import pathlib
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

# Generated code needs the runtime of its generator, or a later one.
GENERATOR = importlib.metadata.version("grpcio-tools")
RUNTIME = importlib.metadata.version("protobuf")
REQUIRED = [f"grpcio>={GENERATOR}", f"grpcio-status>={GENERATOR}", f"protobuf>={RUNTIME}", "pandas>=2", "PyYAML>=6"]
PROTOS = pathlib.Path(__file__).resolve().parents[2] / "protos"


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


setup(install_requires=REQUIRED, cmdclass={"build_py": BuildWithStubs})
