"""The JSON Schema of a spec, for editors that complete and check it."""

from headrace.pipeline.spec.pipeline import PipelineSpec


def json_schema() -> dict[str, object]:
    """The JSON Schema of a spec, without the rules that involve several sections."""
    schema = PipelineSpec.model_json_schema(by_alias=True)
    for definition in schema["$defs"].values():
        # `format` distinguishes the kinds of a section. Only Python code may leave it out.
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
