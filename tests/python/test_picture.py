# SPDX-License-Identifier: BSD-3-Clause
"""Pictures: show the owners of the layouts, and are drawn for every kind of plan."""

import io
import itertools

import matplotlib.figure
import matplotlib.image
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import datamover as dm
from datamover import layout_picture, picture
from datamover.holdings import Holdings
from datamover.picture import draw


def owner_map(layout, shape):
    owner = np.empty(shape, np.int64)
    for index in np.ndindex(*shape):
        owner[index] = layout.owner_of(index)
    return owner


@pytest.mark.parametrize("grid_order", ["C", "F"])
@pytest.mark.parametrize("ranks", [None, (5, 3, 1, 0, 2, 4)])
def test_pixels_are_the_owners(grid_order, ranks):
    layout = dm.BlockCyclic(
        (9, 14), "(cyclic(2), block)", nprocs=6, grid=(2, 3), first_process=(1, 2),
        grid_order=grid_order, ranks=ranks,
    )  # fmt: skip
    expected = owner_map(layout, (9, 14))
    holdings = Holdings(layout, (0, 1))
    assert holdings.whole
    np.testing.assert_array_equal(holdings.owners, expected)
    for rank in range(6):
        np.testing.assert_array_equal(holdings.held_by(rank), expected == rank)


def test_one_ranks_part_shows_however_small_it_is():
    n = 1_000_000
    layout = dm.BlockCyclic((n, n), "(block, *)", nprocs=n)
    held = Holdings(layout, (0, 1), (n, n)).held_by(123_456)
    assert held.any(axis=1).sum() == 1 and held.any(axis=1).argmax() == held.shape[0] * 123_456 // n


def test_boxes_and_lists():
    domain = dm.Region((2, 3), (10, 11))
    plan = dm.FloorPlan([dm.Region((2, 3), (6, 11)), dm.Region((5, 3), (10, 11))], [1, 0], 2)
    expected = np.where(np.arange(8)[:, None] < 4, 1, 0) * np.ones((1, 8), int)
    assert tuple(plan.domain.shape) == tuple(domain.shape)
    np.testing.assert_array_equal(Holdings(plan, (0, 1)).owners, expected)
    lists = dm.IndexList((2, 3), [[0, 4], [1, 2, 5]])
    np.testing.assert_array_equal(Holdings(lists, (0, 1)).owners, [[0, 1, 1], [-1, 0, 1]])
    ranges = dm.FlatCyclic((2, 3, 2), 3, nprocs=3, owners=[2, 0])
    np.testing.assert_array_equal(Holdings(ranges, (0, 1)).owners, [[2, 2, 0], [2, 2, 0]])
    np.testing.assert_array_equal(Holdings(ranges, (1, 2)).owners, [[2, 2], [2, 0], [0, 0]])


def test_what_overlaps_is_held_by_each():
    boxes = [dm.Region((0, 0), (6, 3)), dm.Region((0, 0), (9, 1)), dm.Region((2, 0), (2, 3))]
    plan = dm.FloorPlan(boxes, [0, 1, 1], 2)
    lists = dm.IndexList(
        (9, 3), [[i for i in range(27) if i < 18], [i for i in range(27) if i % 3 == 0]]
    )
    for layout in (plan, lists):
        # Pixels of two rows: the last but one holds a row of each.
        holdings = Holdings(layout, (0, 1), edges=[np.array([0, 2, 4, 5, 7, 9]), np.arange(4)])
        np.testing.assert_array_equal(holdings.held_by(0)[:, 2], [1, 1, 1, 1, 0])
        np.testing.assert_array_equal(holdings.held_by(1), np.arange(3) == np.zeros((5, 1)))


def block_cyclic_plan(shape, before, after, nprocs):
    return dm.redistribute(
        dm.BlockCyclic(shape, before, nprocs=nprocs), dm.BlockCyclic(shape, after, nprocs=nprocs)
    )


def into_nothing(shape):
    blocks = dm.BlockCyclic(shape, "(block, *, *)", nprocs=2)
    nothing = dm.FloorPlan(np.zeros((0, 2, len(shape)), int), [], nprocs=2)
    return dm.redistribute(blocks, nothing)


@pytest.mark.parametrize(
    ("make_plan", "rank"),
    [
        (lambda: block_cyclic_plan((50,), "(block)", "(cyclic(3))", 4), None),
        (lambda: block_cyclic_plan((64, 64), "(block,*)", "(cyclic(2),cyclic)", 6), None),
        (lambda: block_cyclic_plan((9, 8, 7), "(block,*,*)", "(*,cyclic,block)", 3), 1),
        (lambda: block_cyclic_plan((3, 5, 6, 7), "(block,*,*,*)", "(*,*,*,block)", 20), None),
        (lambda: block_cyclic_plan((4096, 4096), "(block,*)", "(*,cyclic)", 100_000), 77),
        (lambda: dm.halo(dm.FloorPlan.uniform(dm.Region((0, 0), (9, 9)), (2, 2), 3), 1), None),
        (lambda: block_cyclic_plan((0,), "(block)", "(cyclic(3))", 4), None),
        (lambda: block_cyclic_plan((3, 0), "(block,*)", "(*,cyclic)", 4), 1),
        (lambda: block_cyclic_plan((3, 0, 4), "(block,*,*)", "(*,*,block)", 2), None),
        (lambda: into_nothing((2, 3, 4)), None),
    ],
)
def test_every_kind_of_plan_is_drawn(make_plan, rank, tmp_path):
    plan = make_plan()
    path = tmp_path / "plan.png"
    draw(plan, dm.explain(plan, rank=rank), path)
    pixels = matplotlib.image.imread(path)
    assert pixels.shape[:2] == (795, 2040)
    # Something stands in each third of the picture, and the border is empty.
    thirds = np.array_split(pixels[150:700, :, :3], 3, axis=1)
    assert all(np.ptp(third) > 0.5 for third in thirds)
    assert (pixels[-4:, :, :3] == 1).all() and (pixels[:4, :, :3] == 1).all()


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draw a plan, and give the figure."""
    figures = []
    save = matplotlib.figure.Figure.savefig

    def kept(figure, *given, **options):
        figures.append(figure)
        save(figure, *given, **options)

    def drawn(plan, **options):
        draw(plan, dm.explain(plan, **options), tmp_path / "plan.png")
        return figures[-1]

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", kept)
    return drawn


def drawn_pixels(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def pixels_of(figure, axes):
    """Return the pixels within the frame of axes: an array of rows, columns and colors."""
    pixels = drawn_pixels(figure)[::-1, :, :3] / 255
    left, bottom, right, top = np.array(axes.get_window_extent().extents).round().astype(int)
    return pixels[bottom + 3 : top - 3, left + 3 : right - 3]


def ranks_seen(figure, axes, nprocs):
    """The rank of each element of the front, the top and the right-hand face, as it is painted."""
    pixels = drawn_pixels(figure)[::-1, :, :3] / 255
    for image, shade in zip(axes.images, (1.0, 0.93, 0.84), strict=True):
        shape = image.get_array().shape[:2]
        rows, columns = np.indices(shape)
        places = np.stack([(columns + 0.5) / shape[1], (rows + 0.5) / shape[0]], axis=-1)
        at = image.get_transform().transform(places.reshape(-1, 2)).astype(int)
        table = layout_picture.colors(nprocs)(np.arange(nprocs))[:, :3] * shade
        distance = np.abs(pixels[at[:, 1], at[:, 0], None] - table).sum(axis=-1)
        assert distance.min(axis=1).max() < 0.02
        yield distance.argmin(axis=1).reshape(shape)


def grid_owners(*said, **options):
    layout = dm.BlockCyclic((5, 6, 7), *said, **options)
    return layout, owner_map(layout, (5, 6, 7))


def box_owners():
    boxes = dm.FloorPlan.uniform(dm.Region((-2, 3, 10), (3, 9, 17)), (2, 1, 3), 6)
    owners = np.empty((5, 6, 7), int)
    for region, rank in zip(boxes.regions - np.array((-2, 3, 10)), boxes.owners, strict=True):
        owners[tuple(map(slice, *region))] = rank
    return boxes, owners


@pytest.mark.parametrize(
    "made",
    [
        lambda: grid_owners("(block, cyclic, cyclic(3))", nprocs=8, grid=(2, 2, 2)),
        lambda: grid_owners("(*, *, block)", nprocs=3),
        lambda: grid_owners("(cyclic(2), *, block)", nprocs=40, grid=(3, 1, 7)),
        lambda: (dm.FlatCyclic((5, 6, 7), 4, nprocs=9), np.arange(210) // 4 % 9),
        lambda: (dm.IndexList((5, 6, 7), [range(k, 210, 5) for k in range(5)]), np.arange(210) % 5),
        box_owners,
    ],
)
def test_the_faces_of_a_cuboid_are_those_that_are_seen(drawn, made):
    layout, owners = made()
    expected = owners.reshape(5, 6, 7)
    figure = drawn(dm.redistribute(layout, layout))
    front, top, side = ranks_seen(figure, figure.axes[0], layout.nprocs)
    np.testing.assert_array_equal(front, expected[0])
    np.testing.assert_array_equal(top, expected[:, 0])
    np.testing.assert_array_equal(side, expected[:, :, -1])


def test_faces_that_meet_show_the_same_elements_of_a_part(drawn):
    figure = drawn(block_cyclic_plan((8, 8, 20_000), "(block,*,*)", "(*,*,cyclic)", 3))
    images = zip(figure.axes[1].images, (1.0, 0.93, 0.84), strict=True)
    front, top, side = (image.get_array()[..., :3] / shade for image, shade in images)
    (owner,) = layout_picture.colors(3)([(120 - 1) % 3])[:, :3]  # of the last that is shown
    np.testing.assert_allclose(side, np.broadcast_to(owner, side.shape))
    np.testing.assert_allclose(front[0], top[-1])
    np.testing.assert_allclose(front[0, -1], owner)


@pytest.mark.parametrize(("rank", "ninths"), [(0, (1, 1, 0)), (26, (0, 0, 1)), (13, (0, 0, 0))])
def test_one_ranks_part_of_a_cuboid_is_on_its_faces_alone(drawn, rank, ninths):
    plan = block_cyclic_plan((9, 9, 9), "(block,*,*)", "(block,block,block)", 27)
    axes = drawn(plan, rank=rank).axes[1]
    faces = [image.get_array() for image in axes.images]
    held = [np.mean(face[..., 0] > 1.5 * face[..., 1]) for face in faces]  # red
    np.testing.assert_allclose(held, np.array(ninths) / 9)
    words = [text.get_text() for text in axes.texts]
    assert (f"process {rank} holds nothing on these faces" in words) == (not any(ninths))


@pytest.mark.parametrize(
    ("before", "after", "hidden"),
    [
        ("(block,*,*,*)", "(*,*,*,block)", 1),
        ("(*,*,block,*)", "(*,*,*,block)", 0),
        ("(block,block,*,*)", "(block,*,*,*)", 2),
    ],
)
def test_of_four_dimensions_those_that_are_split_are_drawn(drawn, before, after, hidden):
    figure = drawn(block_cyclic_plan((3, 5, 6, 7), before, after, 4))
    for axes in figure.axes[:2]:
        *edges, note = (text.get_text() for text in axes.texts)
        shown = {int(words.split(":")[0].removeprefix("dimension ")) for words in edges}
        assert shown == {0, 1, 2, 3} - {hidden}
        assert note == f"at the first index of dimension {hidden}"


@pytest.mark.parametrize("nprocs", [8, 9, 16, 64])
def test_ranks_that_are_close_have_colors_that_differ(nprocs):
    table = layout_picture.colors(nprocs)(np.arange(nprocs))[:, :3]
    distance = np.abs(table[:, None] - table).sum(axis=-1)
    close = np.abs(np.subtract.outer(np.arange(nprocs), np.arange(nprocs)))
    assert distance[(close > 0) & (close <= 8)].min() > 0.25


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ((0, 1, 2), "(*,*,block) on grid (1, 1, 3)"),
        ((2, 1, 0), "(*,*,block) on grid (1, 1, 3); dimension 0 was 2, 2 was 0"),
    ],
)
def test_a_transpose_names_the_dimensions_that_it_moves(drawn, axes, words):
    shape = (6, 5, 4)
    before = dm.BlockCyclic(shape, "(block,*,*)", nprocs=3)
    after = dm.BlockCyclic([shape[a] for a in axes], "(*,*,block)", nprocs=3)
    figure = drawn(dm.redistribute(before, after, axes=axes))
    assert words in [text.get_text() for text in figure.texts]


def test_ticks_are_the_indices_of_the_array(drawn):
    box = dm.Region((-2, 100), (6, 1100))
    figure = drawn(dm.halo(dm.FloorPlan.uniform(box, (2, 2), 4), 1))
    axes = figure.axes[0]
    assert tick_labels(axes.xaxis) == ["100", "1,100"]
    assert tick_labels(axes.yaxis) == ["-2", "6"]


@pytest.mark.parametrize("shape", [(64, 48, 32), (4, 8, 1000), (5, 1000, 5)])
def test_words_beside_a_cuboid_do_not_touch(drawn, shape):
    figure = drawn(block_cyclic_plan(shape, "(block,*,*)", "(*,block,cyclic(4))", 16))
    for axes in figure.axes[:2]:
        words = [text.get_window_extent() for text in axes.texts]
        words.append(axes.get_legend().get_window_extent())
        assert len(words) == 4
        assert not any(a.overlaps(b) for a, b in itertools.combinations(words, 2))
        # Read row by row.
        labels = [text.get_text() for text in axes.get_legend().get_texts()]
        assert labels[:4] == ["0", "8", "1", "9"]


def test_a_cuboid_of_which_a_part_is_shown_says_so(drawn):
    figure = drawn(block_cyclic_plan((2000, 5, 2000), "(block,*,*)", "(*,*,cyclic)", 3))
    before, after = ([text.get_text() for text in axes.texts] for axes in figure.axes[:2])
    assert before == ["dimension 2: 2,000", "dimension 1: 5", "dimension 0: 2,000"]
    assert after == ["dimension 2: first 120 of 2,000", "dimension 1: 5", "dimension 0: 2,000"]
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()


@pytest.mark.parametrize("n", [1000, 480 * 35 * 7])  # with the period of the pixels, too
def test_bars_have_one_scale_before_and_after(drawn, n):
    figure = drawn(block_cyclic_plan((n,), "(block)", "(cyclic(7))", 5))
    before, after = figure.axes[:2]
    assert before.get_xlim() == after.get_xlim() == (0, n)
    larger = [axes.child_axes[0] for axes in (before, after)]
    assert [axes.get_xlim() for axes in larger] == [(0, 84), (0, 84)]
    ranks = [[text.get_text() for text in axes.texts] for axes in larger]
    assert ranks == [["0"], ["0", "1", "2", "3", "4", "0", "1", "2", "3", "4", "0", "1"]]
    # Blocks smaller than a pixel get the mean of their colors, and no rank.
    assert not after.texts and [text.get_text() for text in before.texts] == list("01234")
    mean = layout_picture.colors(5)(np.arange(5))[:, :3].mean(axis=0)
    np.testing.assert_allclose(pixels_of(figure, after).mean(axis=(0, 1)), mean, atol=0.02)


def test_a_bar_of_few_blocks_is_not_shown_twice(drawn):
    figure = drawn(block_cyclic_plan((7,), "(block)", "(cyclic)", 3))
    assert not any(axes.child_axes for axes in figure.axes[:2])


def test_a_bar_takes_little_of_a_page(drawn):
    figure = drawn(block_cyclic_plan((1000,), "(block)", "(cyclic(7))", 12))
    bar, traffic = (figure.axes[k].get_window_extent().height for k in (0, 2))
    assert 5 * bar < traffic
    of_notebook = matplotlib.image.imread(
        io.BytesIO(picture.layout_png(dm.BlockCyclic(1000, "(cyclic(7))", nprocs=12)))
    )
    assert of_notebook.shape[0] < of_notebook.shape[1]


def slabs(nprocs):
    box = dm.Region((0, 0), (1000, 1000))
    return dm.halo(dm.FloorPlan.uniform(box, (nprocs, 1), nprocs), 1)


@pytest.mark.parametrize(
    "make_plan",
    [lambda: block_cyclic_plan((1000, 1000), "(block,*)", "(*,block)", 100), lambda: slabs(100)],
)
def test_lines_between_many_blocks_do_not_hide_the_colors(drawn, make_plan):
    figure = drawn(make_plan())
    seen = pixels_of(figure, figure.axes[0])
    column = seen[:, seen.shape[1] // 5]  # beside the lens
    expected = layout_picture.colors(100)(np.arange(99, -1, -1))[:, :3]
    expected = expected[np.arange(len(column)) * 100 // len(column)]
    assert np.abs(column - expected).max() < 0.1


def test_groups_of_ranks_are_of_one_size(drawn):
    figure = drawn(block_cyclic_plan((1000, 1000), "(block,*)", "(*,block)", 100))
    (shown,) = figure.axes[2].images
    assert shown.get_array().shape == (50, 50) and np.ptp(shown.get_array()) == 0
    assert any("50 groups" in text.get_text() for text in figure.texts)


def tick_labels(axis):
    """The labels of the ticks that are seen."""
    low, high = sorted(axis.get_view_interval())
    ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    return [label.get_text() for place, label in ticks if low <= place <= high]


@pytest.mark.parametrize(
    ("shape", "elem_bytes", "expected"),
    [
        ((3, 3), 1, ["0 B", "1 B"]),
        ((64, 64), 8, ["0 B", "1 kB", "2 kB", "3 kB"]),
        ((4096, 4096), 8, ["0 B", "5 MB", "10 MB"]),
    ],
)
def test_ticks_are_whole_bytes(drawn, shape, elem_bytes, expected):
    plan = block_cyclic_plan(shape, "(block,*)", "(*,block)", 3)
    bar = drawn(plan, elem_bytes=elem_bytes).axes[2].child_axes[0]
    assert tick_labels(bar.yaxis) == expected


def test_one_rank_has_whole_bytes_and_says_where_it_gets_nothing(drawn):
    plan = block_cyclic_plan((10,), "(block)", "(*)", 4)
    traffic = drawn(plan, rank=3).axes[2]
    words = [text.get_text() for text in traffic.texts]
    assert words == ["sends 8 bytes to 1 process", "receives nothing"]
    assert tick_labels(traffic.yaxis) == ["10 B", "5 B", "0 B", "5 B", "10 B"]


@pytest.mark.parametrize(
    ("n", "nprocs", "elem_bytes", "words"),
    [
        (1, 2, 1, "2 processes: nothing moves, 1 byte stays"),
        (2, 2, 1, "2 processes exchange 1 byte in 1 message of 1 byte; 1 byte stays"),
        (1, 1, 8, "1 process: nothing moves, 8 bytes stay"),
        (1_000_000, 5, 8,
         "5 processes exchange 6.4 MB in 20 messages of about 320.0 kB; 1.6 MB stay"),
    ],
)  # fmt: skip
def test_the_headline_counts(drawn, n, nprocs, elem_bytes, words):
    after = "(*)" if n == 2 else "(cyclic(7))"
    plan = block_cyclic_plan((n,), "(block)", after, nprocs)
    assert drawn(plan, elem_bytes=elem_bytes).texts[0].get_text() == words
