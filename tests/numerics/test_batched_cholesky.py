import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from surefoot.numerics import batched_cholesky
from surefoot.numerics.batched_cholesky import Cholesky, invert, invert_definite, solve


def random_systems(rng, people, size):
    root = rng.standard_normal((people, size, size))
    return root @ np.swapaxes(root, 1, 2) + 0.1 * np.eye(size)


def test_solves_what_numpy_solves():
    rng = np.random.default_rng(0)
    for size in (1, 2, 5, 12):
        matrices, right = random_systems(rng, 30, size), rng.standard_normal((30, size))
        system = Cholesky(matrices)
        assert (system.rank == size).all()
        assert_allclose(system.solve(right), np.linalg.solve(matrices, right[..., None])[..., 0], rtol=1e-7, atol=1e-9)


def test_solving_at_once_is_numpys_and_leaves_singular_people_to_the_factor():
    rng = np.random.default_rng(5)
    for size in (1, 2, 5, 12, 13, 31):
        matrices, right = random_systems(rng, 30, size), rng.standard_normal((30, size, 2))
        matrices[7] = -matrices[7]
        matrices[9, :, -1], matrices[9, -1, :] = matrices[9, :, 0], matrices[9, 0, :]
        matrices[9, -1, -1] = matrices[9, 0, 0]
        found, factor = solve(matrices, right), Cholesky(matrices)
        assert_array_equal(found.positive_definite, factor.rank == size)
        assert_allclose(found.smallest_pivot, factor.smallest_pivot, rtol=1e-9)
        good = found.positive_definite
        assert good.sum() == (29 if size == 1 else 28)
        assert_allclose(found.solution[good], np.linalg.solve(matrices[good], right[good]), rtol=1e-7, atol=1e-9)
        for column in range(2):
            assert_array_equal(found.solution[~good, :, column], factor.solve(right[..., column])[~good])
        alone = solve(matrices[:1], right[:1])
        assert_array_equal(alone.solution[0], found.solution[0])


def test_a_few_columns_at_a_time_are_factored_as_one_by_one(monkeypatch):
    rng = np.random.default_rng(8)
    for size, rank in ((30, 30), (31, 17)):
        root = rng.standard_normal((6, size, rank))
        matrices = root @ np.swapaxes(root, 1, 2)
        right = matrices @ rng.standard_normal((6, size, 3))
        with monkeypatch.context() as patch:
            patch.setattr(batched_cholesky, "MANY", 1)
            factor = Cholesky(matrices)
            alone = Cholesky(matrices[:1])
        assert_allclose(factor.rank, rank, atol=1)  # Rounding may leave a column that is none.
        assert_allclose(matrices @ factor.solve(right), right, rtol=1e-6, atol=1e-6)
        if rank == size:
            assert_allclose(factor.log_determinant(), np.linalg.slogdet(matrices)[1], rtol=1e-9)
        assert_array_equal(alone.solve(right[:1]), factor.solve(right)[:1])


def test_half_solve_gives_the_quadratic_form_of_the_inverse():
    rng = np.random.default_rng(1)
    matrices, right = random_systems(rng, 10, 4), rng.standard_normal((10, 4))
    expected = np.einsum("ni,nij,nj->n", right, np.linalg.inv(matrices), right)
    assert_allclose((Cholesky(matrices).half_solve(right) ** 2).sum(axis=0), expected, rtol=1e-9)


def test_units_of_the_columns_do_not_matter():
    matrix = np.array([[[2.0, 1.0], [1.0, 3.0]]])
    units = np.array([1e-8, 1e8])
    solved = Cholesky(matrix * units[:, None] * units).solve(np.array([[1.0, 1.0]]) * units)
    assert_allclose(solved * units, Cholesky(matrix).solve(np.array([[1.0, 1.0]])), rtol=1e-12)


def test_a_dependent_column_is_dropped_and_others_are_undisturbed():
    rng = np.random.default_rng(2)
    good = random_systems(rng, 1, 3)[0]
    x = rng.standard_normal((20, 2))
    x = np.column_stack([x, x[:, 0] + x[:, 1]])
    singular = x.T @ x
    right = rng.standard_normal((2, 3))
    right[1] = x.T @ rng.standard_normal(20)
    system = Cholesky(np.stack([good, singular]))
    assert system.rank.tolist() == [3, 2]
    solved = system.solve(right)
    assert_allclose(solved[0], np.linalg.solve(good, right[0]))
    assert solved[1, 2] == 0
    assert_allclose(singular @ solved[1], right[1], atol=1e-9)


def test_a_matrix_of_zeros_gives_zeros():
    assert_allclose(Cholesky(np.zeros((1, 3, 3))).solve(np.zeros((1, 3))), 0)


def test_rows_rank_and_determinant_are_numpys():
    rng = np.random.default_rng(11)
    root = rng.standard_normal((6, 4, 5))
    root[3:, 3] = root[3:, 0] + root[3:, 1]
    matrix = root @ np.swapaxes(root, 1, 2)
    rows = rng.standard_normal((6, 7, 4))
    system = Cholesky(matrix)
    assert_array_equal(system.rank, [4, 4, 4, 3, 3, 3])
    halves = np.moveaxis(system.half_solve(np.swapaxes(rows, 1, 2)), (0, 1, 2), (2, 1, 0))
    for participant in range(6):
        size = system.rank[participant]
        part = matrix[participant, :size, :size]
        expected = [row[:size] @ np.linalg.solve(part, row[:size]) for row in rows[participant]]
        assert_allclose((halves[participant] ** 2).sum(axis=1), expected, rtol=1e-8)
        assert_allclose(system.log_determinant()[participant], np.linalg.slogdet(part)[1], rtol=1e-8)


def test_many_columns_do_not_see_who_else_is_there():
    rng = np.random.default_rng(3)
    matrices, right = random_systems(rng, 9, 60), rng.standard_normal((9, 60, 3))
    together, inverse = solve(matrices, right), invert_definite(matrices)
    for person in (0, 8):
        own = slice(person, person + 1)
        assert_array_equal(solve(matrices[own], right[own]).solution[0], together.solution[person])
        assert_array_equal(invert_definite(matrices[own])[0][0], inverse[0][person])
        assert_array_equal(invert_definite(matrices[own])[1][0], inverse[1][person])


def test_solving_many_columns_is_as_accurate_as_lapack_where_two_are_nearly_the_same():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((5, 80, 30))
    x[..., 3] = x[..., 0] + 1e-5 * x[..., 3]
    matrices, right = np.swapaxes(x, 1, 2) @ x, np.swapaxes(x, 1, 2) @ rng.standard_normal((5, 80, 1))
    left = abs(matrices @ solve(matrices, right).solution - right).max()
    assert left < 10 * abs(matrices @ np.linalg.solve(matrices, right) - right).max() + 1e-11


def test_the_inverse_of_many_columns_is_that_of_one_after_the_other():
    rng = np.random.default_rng(6)
    for size in (1, 12, 13, 41):
        root = rng.standard_normal((7, size, 5))
        matrices = np.eye(size) + root @ np.swapaxes(root, 1, 2)
        inverse, log_determinant = invert_definite(matrices)
        plain, determinant = invert(matrices)
        assert_allclose(inverse, plain, rtol=1e-9, atol=1e-12)
        assert_allclose(log_determinant, determinant, rtol=1e-11, atol=1e-12)
        assert_allclose(inverse @ matrices, np.broadcast_to(np.eye(size), matrices.shape), atol=1e-10)
