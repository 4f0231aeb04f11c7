"""Topics, each with a number, found by filter: the reverse of the trie of patterns.

Matching walks the tree level by level with the set of nodes that the filter has reached so far, so its cost is at most
the nodes of the tree, however deep a topic or filter is. Levels are those of MQTT: '+' stands for one, '#' for the
level it follows and everything below it. Neither topics nor filters are checked here (`check_topic`, `check_filter`).
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class TreeNode:
    """The topics that share one beginning.

    value  of the topic that ends here; only while `filled`
    """

    def __init__(self) -> None:
        self.children: dict[bytes, TreeNode] | None = None  # most nodes are leaves
        self.value: i64 = 0
        self.filled = False

    def child(self, level: bytes) -> TreeNode | None:
        children = self.children
        return None if children is None else children.get(level)


@final
class TopicTree:
    """A number a topic."""

    def __init__(self) -> None:
        self.root = TreeNode()
        self.count: i64 = 0

    def size(self) -> i64:
        """The number of topics that have a number."""
        return self.count

    def is_empty(self) -> bool:
        """True if not even a node is left."""
        return self.root.children is None

    def set(self, topic: bytes, value: i64) -> None:
        """Give a topic its number, in place of any that it has."""
        node = self.root
        for level in topic.split(b"/"):
            children = node.children
            if children is None:
                children = {}
                node.children = children
            child = children.get(level)
            if child is None:
                child = TreeNode()
                children[level] = child
            node = child
        if not node.filled:
            node.filled = True
            self.count += 1
        node.value = value

    def get(self, topic: bytes) -> int | None:
        """The number of a topic, None where it has none."""
        node = self.root
        for level in topic.split(b"/"):
            child = node.child(level)
            if child is None:
                return None
            node = child
        return node.value if node.filled else None

    def remove(self, topic: bytes) -> bool:
        """Take a topic's number away, and the nodes that led to nothing else; False where it has none."""
        levels = topic.split(b"/")
        path: list[TreeNode] = []
        node = self.root
        for level in levels:
            child = node.child(level)
            if child is None:
                return False
            path.append(node)
            node = child
        if not node.filled:
            return False
        node.filled = False
        self.count -= 1
        while path and not node.filled and node.children is None:
            node = path.pop()
            children = node.children
            assert children is not None
            del children[levels[len(path)]]
            if not children:
                node.children = None
        return True

    def match(self, filter: bytes) -> list[int]:
        """The numbers of the topics that a filter matches, in no order.

        A wildcard on the first level does not match a topic that begins with '$' [MQTT-4.7.2-1].
        """
        active = [self.root]
        first = True
        for level in filter.split(b"/"):
            if level == b"#":
                return below(active, first)
            following: list[TreeNode] = []
            for node in active:
                if level == b"+":
                    add_children(node, first, following)
                else:
                    child = node.child(level)
                    if child is not None:
                        following.append(child)
            active = following
            first = False
            if not active:
                break
        return [int(node.value) for node in active if node.filled]


def add_children(node: TreeNode, plain_only: bool, nodes: list[TreeNode]) -> None:
    """Add the nodes right below one; with `plain_only`, not those whose level begins with '$'."""
    children = node.children
    if children is None:
        return
    if not plain_only:
        nodes.extend(children.values())
        return
    for level, child in children.items():
        if not level.startswith(b"$"):
            nodes.append(child)


def below(nodes: list[TreeNode], plain_only: bool) -> list[int]:
    """The numbers of these nodes and all below; with `plain_only`, not those whose first level begins with '$'."""
    found: list[int] = []
    while nodes:
        node = nodes.pop()
        if node.filled:
            found.append(int(node.value))
        add_children(node, plain_only, nodes)
        plain_only = False
    return found
