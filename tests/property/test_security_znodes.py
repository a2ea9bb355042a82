"""The znodes of ACLs, users, quotas and tokens hold the same image as the controller's records."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cluster.image import MetadataImage
from headrace.cluster.image_diff import records_between
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.metadata_store import Elected
from headrace.cluster.stores.multi_packing import pack_steps
from headrace.cluster.stores.znode_planner import ZnodePlanner
from headrace.testing.simulated_znodes import ZnodeTree
from support.brokers.security_records import SECURITY_TYPES, security_record_for
from support.brokers.znode_tables import new_tree, read_tree

ELECTED = Elected(1, 7, 0)


@st.composite
def security_batches(draw: st.DrawFn) -> list[list[MetadataRecord]]:
    image = MetadataImage()
    found: list[list[MetadataRecord]] = []
    for _ in range(draw(st.integers(1, 3))):
        batch: list[MetadataRecord] = []
        for kind in draw(st.lists(st.sampled_from(SECURITY_TYPES), min_size=1, max_size=12)):
            record = security_record_for(draw, image, kind)
            if record is not None:
                batch.append(record)
                image = image.apply([record])
        found.append(batch)
    return found


def same_security(one: MetadataImage, other: MetadataImage) -> bool:
    return (
        one.acls == other.acls
        and one.scram_credentials == other.scram_credentials
        and one.quotas == other.quotas
        and one.delegation_tokens == other.delegation_tokens
    )


def commit(tree: ZnodeTree, image: MetadataImage, batch: list[MetadataRecord]) -> MetadataImage:
    """Writes the batch with a fresh plan, one operation at a time where a step has only one.

    After each write, every resource, user, entity and token is as it was before the batch or as
    it is after the batch.
    """
    after = image.apply(batch)
    for write in pack_steps(ZnodePlanner(read_tree(tree), ELECTED).plan(batch), write_ops=1):
        tree.write(write, session_id=0)
        _check_between(read_tree(tree).image(), image, after)
    return after


def _check_between(now: MetadataImage, before: MetadataImage, after: MetadataImage) -> None:
    for pattern in {acl.pattern for image in (now, before, after) for acl in image.acls}:
        old, new, found = (
            {acl for acl in image.acls if acl.pattern == pattern} for image in (before, after, now)
        )
        assert found in (old, new)
    for name in ("scram_credentials", "quotas", "delegation_tokens"):
        tables = [getattr(image, name) for image in (before, after, now)]
        for key in {key for table in tables for key in table}:
            old, new, found = (table.get(key) for table in tables)
            assert found in (old, new)


@settings(deadline=None, max_examples=60)
@given(security_batches())
def test_any_prefix_of_writes_has_whole_resources_and_users(
    batches: list[list[MetadataRecord]],
) -> None:
    tree = new_tree()
    image = MetadataImage()
    for batch in batches:
        image = commit(tree, image, batch)
        assert same_security(read_tree(tree).image(), image)


@settings(deadline=None, max_examples=40)
@given(security_batches())
def test_a_planner_that_continues_writes_the_same_znodes_as_one_that_reads_them(
    batches: list[list[MetadataRecord]],
) -> None:
    continued, fresh = new_tree(), new_tree()
    stored = read_tree(continued)
    for batch in batches:
        for write in pack_steps(ZnodePlanner(stored, ELECTED).plan(batch)):
            continued.write(write, session_id=0)
        for write in pack_steps(ZnodePlanner(read_tree(fresh), ELECTED).plan(batch)):
            fresh.write(write, session_id=0)
    assert {path: node.data for path, node in continued.nodes.items()} == {
        path: node.data for path, node in fresh.nodes.items()
    }


@settings(deadline=None, max_examples=40)
@given(security_batches())
def test_removing_everything_leaves_no_znode(batches: list[list[MetadataRecord]]) -> None:
    tree = new_tree()
    empty = set(tree.nodes)
    image = MetadataImage()
    for batch in batches:
        image = commit(tree, image, batch)
    commit(tree, image, list(records_between(image, MetadataImage())))
    assert set(tree.nodes) == empty
