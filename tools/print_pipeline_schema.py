# ruff: noqa: INP001  # a script of its own, not a package
"""Prints docs/pipeline-spec.schema.json from the models of the spec.

script/print-pipeline-schema > docs/pipeline-spec.schema.json
"""

import json
import sys

from headrace.pipeline.spec import json_schema


def main() -> None:
    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")


if __name__ == "__main__":
    main()
