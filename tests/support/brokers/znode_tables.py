"""Znodes in a table, to read back written znodes without a client."""

from headrace.cluster.stores import znode_paths
from headrace.cluster.stores.znode_read import Znode, ZnodeRead, ZnodeReadResult
from headrace.cluster.stores.znode_reader import StoredMetadata, read_metadata
from headrace.cluster.stores.zookeeper_client import Create
from headrace.testing.simulated_znodes import ZnodeTree


def new_tree() -> ZnodeTree:
    """A tree with the znodes of every cluster."""
    tree = ZnodeTree()
    tree.write([Create(path, data) for path, data in znode_paths.SKELETON.items()], session_id=0)
    return tree


def read_tree(tree: ZnodeTree) -> StoredMetadata:
    """Reads the content of the tree."""
    steps = read_metadata()
    ask = next(steps)
    while True:
        try:
            ask = steps.send(_answer(tree, ask))
        except StopIteration as done:
            stored: StoredMetadata = done.value
            return stored


def _answer(tree: ZnodeTree, ask: ZnodeRead) -> ZnodeReadResult:
    nodes = [tree.nodes.get(path) for path in ask.znodes]
    parents = [tree.nodes.get(path) for path in ask.children]
    return ZnodeReadResult(
        [
            None if node is None else Znode(node.data, node.version, len(node.children))
            for node in nodes
        ],
        [None if node is None else sorted(node.children) for node in parents],
    )
