"""Prints what a Python environment has, as the environment.json of made environments says it. It
must run in any Python that has frameworks, so it imports none of them and needs nothing installed;
versions come from what is installed, never from what was asked for.

    PYTHON tools/describe_environment.py [NAME]
"""

import json
import platform
import re
import sys
from importlib import metadata

SCHEMA = 1


def describe(name):
    """name: of the environment, "" where it has none."""
    packages = {}
    for found in metadata.distributions():
        title = found.metadata["Name"]
        if title:  # a broken installation has none; the first one found is the one imported
            packages.setdefault(re.sub(r"[-_.]+", "-", title).lower(), found.version)
    return {
        "schema": SCHEMA,
        "name": name,
        "python": platform.python_version(),
        "packages": dict(sorted(packages.items())),
    }


if __name__ == "__main__":
    print(json.dumps(describe(sys.argv[1] if len(sys.argv) > 1 else ""), indent=1))
