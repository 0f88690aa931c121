"""The canonical form of an ONNX graph: two exports of one network have the same bytes.

It leaves out what decides no output: names of inner values and nodes, documentation, notes of the exporter, types that
are inferred from the inputs' types, and weights that no node reads. It does not change the order of nodes, nor numbers.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from typing import Any

import onnx


def strip(model: onnx.ModelProto) -> None:
    """Remove the exporter's notes from `model`: stack traces with paths, module names, its own build."""
    model.producer_name, model.producer_version = "nsh", ""
    inner = (node for function in model.functions for node in function.node)
    for part in [model, *_parts(model.graph), *model.functions, *inner]:
        part.ClearField("metadata_props")
        part.ClearField("doc_string")


def canonicalise(model: onnx.ModelProto) -> None:
    """Bring `model` into its canonical form; its inputs and outputs keep their names.

    Inner values are numbered in the order of their first use, and weights are in that order. Attributes and operator
    sets are sorted by name.
    """
    strip(model)
    numbers = count()
    names = defaultdict[str, str](lambda: f"v{next(numbers)}")
    names |= {name: name for name in ("", *_ends(model.graph))}  # "" says that an optional value is left out
    _renumber(model.graph, names)
    sets = sorted({(entry.domain, entry.version) for entry in model.opset_import})
    model.ClearField("opset_import")
    model.opset_import.extend(onnx.helper.make_opsetid(domain, version) for domain, version in sets)


def _parts(graph: onnx.GraphProto) -> Iterator[Any]:
    """The graph and all its parts, including those of sub-graphs."""
    yield graph
    for parts in (graph.node, graph.input, graph.output, graph.value_info, graph.initializer):
        yield from parts
    for node in graph.node:
        for inner in _subgraphs(node):
            yield from _parts(inner)


def _subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The branches and bodies of a node, in the order of its attributes."""
    graphs = (graph for attribute in node.attribute for graph in (attribute.g, *attribute.graphs))
    return [graph for graph in graphs if graph.node or graph.output]


def _ends(graph: onnx.GraphProto) -> list[str]:
    """Names of the inputs and outputs."""
    return [value.name for value in (*graph.input, *graph.output)]


def _renumber(graph: onnx.GraphProto, names: defaultdict[str, str]) -> None:
    """Rename what `graph` and its sub-graphs define and use; `names` holds the new names by the old ones."""
    for value in graph.input:
        value.name = names[value.name]
    for node in graph.node:
        _clean(node)
        node.input[:] = [names[name] for name in node.input]
        for inner in _subgraphs(node):
            inner.name = "branch"
            _renumber(inner, names)
        node.output[:] = [names[name] for name in node.output]
    for value in graph.output:
        value.name = names[value.name]
    graph.ClearField("value_info")
    graph.ClearField("quantization_annotation")
    _sort_weights(graph, names)


def _clean(node: onnx.NodeProto) -> None:
    """Remove the names and notes of a node and its constants, and sort its attributes."""
    node.ClearField("name")
    node.attribute.sort(key=lambda attribute: attribute.name)
    for attribute in node.attribute:
        attribute.ClearField("doc_string")
        for tensor in (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors):
            for field in ("name", "doc_string", "metadata_props"):
                tensor.ClearField(field)


def _sort_weights(graph: onnx.GraphProto, names: defaultdict[str, str]) -> None:
    """Bring the weights into the order of their first use, rename them, and drop those without a use."""
    places = {name: place for place, name in enumerate(names)}
    used = sum(weight.name in places for weight in graph.initializer)
    graph.initializer.sort(key=lambda weight: places.get(weight.name, len(places)))
    del graph.initializer[used:]
    for weight in graph.initializer:
        weight.name = names[weight.name]
