"""The schema of a spec, for editors that complete and check while one types."""

from headrace.pipeline.spec.pipeline import PipelineSpec


def json_schema() -> dict[str, object]:
    """What `load_spec` takes, but for the rules between sections."""
    schema = PipelineSpec.model_json_schema(by_alias=True)
    for definition in schema["$defs"].values():
        # A section is told from its siblings by its format, which has a default in Python only.
        if "const" in definition.get("properties", {}).get("format", {}):
            definition["required"] = sorted({"format", *definition.get("required", [])})
    plain = {"type": ["string", "number", "boolean"]}
    schema["$defs"]["Settings"]["additionalProperties"] = plain
    schema.pop("title")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Headrace pipeline",
        **schema,
    }
