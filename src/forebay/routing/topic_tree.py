"""Topics, each with a number, found by filter: the reverse of the trie of patterns.

Matching walks the tree from its root, and reaches each node at most once, so its cost is at most the nodes of the tree,
however deep a topic or filter is. Levels are those of MQTT: '+' stands for one, '#' for the level it follows and
everything below it. Neither topics nor filters are checked here (`check_topic`, `check_filter`).
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.routing.cut_work import UNCUT, CutWork

LISTED_SHIFT: Final = 4  # nodes, as a power of two, that are put on a list in the time of one step


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
        """Return how many topics are in the tree."""
        return self.count

    def is_empty(self) -> bool:
        """Return whether the tree has no node left."""
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
        """Return the number of a topic, or None if it is not in the tree."""
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
        """Return the numbers of the topics that a filter matches, in no particular order."""
        search = TreeSearch(self, filter)
        search.run(UNCUT)
        return search.found


@final
class TreeSearch(CutWork):
    """The search for the topics that a filter matches, cut wherever it has to be.

    Topics may come and go meanwhile: one that keeps its number from the beginning to the end is found, any other one
    perhaps.

    dollar_rule  a wildcard on the first level does not match a topic that begins with '$' [MQTT-4.7.2-1]
    found        numbers, in no order
    """

    def __init__(self, tree: TopicTree, filter: bytes, dollar_rule: bool = True) -> None:
        super().__init__()
        self.dollar_rule = dollar_rule
        self.root = tree.root
        self.levels = filter.split(b"/")
        self.found: list[int] = []
        self.nodes = [tree.root]  # to be looked at yet, each with the level of the filter that comes next
        self.depths = [0]

    def run(self, steps: i64) -> i64:
        nodes = self.nodes
        depths = self.depths
        size: i64 = len(self.levels)
        while nodes and steps > 0:
            node = nodes.pop()
            depth: i64 = depths.pop()
            steps -= 1
            if depth == size:
                if node.filled:
                    self.found.append(int(node.value))
                continue
            level = self.levels[depth]
            if level == b"#":
                if node.filled:
                    self.found.append(int(node.value))
                steps -= self.add_children(node, depth)
            elif level == b"+":
                steps -= self.add_children(node, depth + 1)
            else:
                child = node.child(level)
                if child is not None:
                    nodes.append(child)
                    depths.append(int(depth + 1))
        self.done = not nodes
        return max(steps, 1) if self.done else steps

    def add_children(self, node: TreeNode, depth: i64) -> i64:
        """Queue the nodes right below a node for the search. Return the steps that it took."""
        children = node.children
        if children is None:
            return 0
        before: i64 = len(self.nodes)
        if node is not self.root or not self.dollar_rule:
            self.nodes.extend(children.values())
        else:
            for level, child in children.items():
                if not level.startswith(b"$"):
                    self.nodes.append(child)
        added: i64 = len(self.nodes) - before
        self.depths.extend([int(depth)] * added)
        return added >> LISTED_SHIFT
