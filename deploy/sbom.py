"""The software bill of materials: what `pip install -c constraints.txt 'surefoot[service]'` brings, as CycloneDX JSON.

`make sbom` runs it in the environment that was made from constraints.txt; the same environment gives the same file.
"""

import json
import sys
import uuid
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("service",)
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "surefoot")


def main() -> None:
    """Write the file that the command line names."""
    graph = walk("surefoot", EXTRAS)
    root = graph.pop("surefoot")
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**describe(root[0]), "type": "application"}},
        "components": [describe(one) for one, _ in sorted(graph.values(), key=lambda found: reference(found[0]))],
        "dependencies": [
            {"ref": reference(one), "dependsOn": sorted(reference(graph[name][0]) for name in needed)}
            for one, needed in [root, *graph.values()]
        ],
    }
    content["serialNumber"] = f"urn:uuid:{uuid.uuid5(NAMESPACE, json.dumps(content, sort_keys=True))}"
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{path}: {len(graph)} packages")


def walk(name: str, extras: tuple[str, ...]) -> dict[str, tuple[Distribution, set[str]]]:
    """Every package that is needed, with the names of those that it needs itself."""
    found: dict[str, tuple[Distribution, set[str]]] = {}
    seen: set[tuple[str, tuple[str, ...]]] = set()
    waiting = [(name, extras)]
    while waiting:
        one, wanted = waiting.pop()
        if (one, wanted) in seen:
            continue
        seen.add((one, wanted))
        package, needed = found.setdefault(one, (distribution(one), set()))
        for line in package.requires or []:
            required = Requirement(line)
            environments = [{"extra": extra} for extra in wanted or ("",)]
            if required.marker is None or any(required.marker.evaluate(each) for each in environments):
                needed.add(canonicalize_name(required.name))
                waiting.append((canonicalize_name(required.name), tuple(sorted(required.extras))))
    return found


def reference(package: Distribution) -> str:
    """The package's address in the index of its language."""
    return f"pkg:pypi/{canonicalize_name(package.metadata['Name'])}@{package.version}"


def describe(package: Distribution) -> dict[str, object]:
    """One component."""
    expression, text = package.metadata.get("License-Expression"), package.metadata.get("License")
    classified = [
        line.split(" :: ")[-1] for line in package.metadata.get_all("Classifier", []) if line.startswith("License")
    ]
    # Packages that state no licence have the file of one, which begins with its name.
    text = text or next(
        (str(file.read_text()) for file in package.files or [] if file.match("*/licenses/LICENSE*")), "unknown"
    )
    name = expression or (classified[0] if classified else None) or text.strip().splitlines()[0][:80]
    return {
        "type": "library",
        "bom-ref": reference(package),
        "name": canonicalize_name(package.metadata["Name"]),
        "version": package.version,
        "purl": reference(package),
        "licenses": [{"expression": expression}] if expression else [{"license": {"name": name}}],
    }


if __name__ == "__main__":
    main()
