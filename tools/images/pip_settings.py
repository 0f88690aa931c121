"""Give pip in an image the settings of pip on this machine: its indexes may be mirrors, behind a proxy, or on a disk.

    python3 tools/images/pip_settings.py PIP_CONF

Writes the settings to the file PIP_CONF and prints options of buildah, one a line, that mount it as /etc/pip.conf, and
what the settings name on this machine (certificates, constraints, folders of wheels) at the place where they lie here.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path


def read_settings() -> dict[str, str]:
    """Read the settings by name; a variable of the environment goes before the files."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    lines = sorted(listed.stdout.splitlines(), key=lambda line: line.startswith(":env:"))
    pairs = (line.split("=", 1) for line in lines)
    return {name.rpartition(".")[2]: str(ast.literal_eval(value)) for name, value in pairs}


def local_places(settings: dict[str, str]) -> set[Path]:
    """Files and folders that are named; of an index the folder above, where its files are."""
    places = set()
    for name, value in settings.items():
        for word in re.findall(r"(?:(?<=file://)|(?<!\S))/\S+", value):
            path = Path(word)
            places.add(path.parent if "index" in name else path)
    return {path for path in places if path.exists()}


def main() -> None:
    """Write the one, print the other."""
    target, settings = Path(sys.argv[1]).absolute(), read_settings()
    lines = [f"{name} = {value}" for name, value in settings.items()]
    target.write_text("\n".join(["[global]", *lines, ""]), encoding="utf-8")
    mounts = [f"{target}:/etc/pip.conf", *(f"{path}:{path}" for path in sorted(local_places(settings)))]
    print("\n".join(f"--volume={mount}:ro" for mount in mounts))


if __name__ == "__main__":
    main()
