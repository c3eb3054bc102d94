"""Datasets, pictures in files and grids: read back, and beside torchvision."""

import gzip
import hashlib
import io as bytes_io
import pickle

import numpy as np
import pytest

import weft
from weft.utils.data import DataLoader
from weft.vision import datasets, io, transforms, utils
from weft.vision.datasets.cifar import _Arrays
from weft.vision.datasets.mnist import read_idx

Image = pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(5)


def idx(array):
    """An array in IDX's format."""
    code = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}[array.dtype.str[1:]]
    sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return (
        bytes([0, 0, code, array.ndim])
        + sizes
        + array.astype(array.dtype.newbyteorder(">")).tobytes()
    )


def write_digits(folder, prefix="{part}", n=6):
    folder.mkdir(parents=True)
    images = RNG.integers(0, 256, (2, n, 28, 28), dtype=np.uint8)
    labels = RNG.integers(0, 10, (2, n), dtype=np.uint8)
    for i, part in enumerate(("train", "t10k" if prefix == "{part}" else "test")):
        name = prefix.format(part=part)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(idx(images[i]))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(idx(labels[i]))
    return images, labels


@pytest.mark.parametrize("name", ["MNIST", "FashionMNIST", "KMNIST", "EMNIST"])
@pytest.mark.parametrize("train", [True, False])
def test_digits_are_read_as_torchvision_reads_them(torch, torchvision, tmp_path, name, train):
    emnist = name == "EMNIST"
    write_digits(tmp_path / name / "raw", "emnist-letters-{part}" if emnist else "{part}")
    how = {"split": "letters"} if emnist else {}
    ours = getattr(datasets, name)(str(tmp_path), train=train, **how)
    theirs = getattr(torchvision.datasets, name)(str(tmp_path), train=train, **how)
    assert np.array_equal(ours.data.numpy(), theirs.data.numpy()) and ours.data.dtype == weft.uint8
    assert ours.targets.tolist() == theirs.targets.tolist() and ours.targets.dtype == weft.int64
    assert ours.classes == theirs.classes and ours.class_to_idx == theirs.class_to_idx
    assert repr(ours) == repr(theirs) and len(ours) == 6
    (image, label), (expected, other) = ours[3], theirs[3]
    assert image.mode == "L" and np.array_equal(np.asarray(image), np.asarray(expected))
    assert label == other and type(label) is int
    for old in ("train_data", "test_data", "train_labels", "test_labels"):
        with pytest.warns(UserWarning) as said:
            found, wanted = (getattr(x, old).tolist() for x in (ours, theirs))
        assert found == wanted and str(said[0].message) == str(said[1].message)


def test_packed_files_are_read_if_their_sums_are_right(tmp_path, monkeypatch):
    images, labels = write_digits(tmp_path / "MNIST" / "raw")
    resources = []
    for path in sorted((tmp_path / "MNIST" / "raw").iterdir()):
        packed = gzip.compress(path.read_bytes())
        path.with_name(path.name + ".gz").write_bytes(packed)
        resources.append((path.name + ".gz", hashlib.md5(packed).hexdigest()))
        path.unlink()
    with pytest.raises(RuntimeError, match="not found or corrupted"):
        datasets.MNIST(tmp_path)
    monkeypatch.setattr(datasets.MNIST, "resources", resources)
    found = datasets.MNIST(tmp_path, download=True)
    assert np.array_equal(found.data.numpy(), images[0])
    assert found.targets.tolist() == labels[0].tolist()


@pytest.mark.parametrize("kind", ["u1", "i1", "i2", "i4", "f4", "f8"])
def test_idx_files_of_each_type(tmp_path, kind):
    array = (RNG.normal(size=(2, 3, 2)) * 20).astype(kind)
    (tmp_path / "x").write_bytes(idx(array))
    assert np.array_equal(read_idx(str(tmp_path / "x")).numpy(), array)
    (tmp_path / "x").write_bytes(idx(array)[:-1])
    with pytest.raises(ValueError, match="expected values of"):
        read_idx(str(tmp_path / "x"))
    (tmp_path / "x").write_bytes(b"PNG")
    with pytest.raises(ValueError, match="expected a file in IDX"):
        read_idx(str(tmp_path / "x"))


def write_pictures(folder, key, files, meta):
    """CIFAR's files, with the sums that they have."""
    folder.mkdir()
    sums = {}
    for name in files:
        data = RNG.integers(0, 256, (4, 3072), dtype=np.uint8)
        (folder / name).write_bytes(pickle.dumps({"data": data, key: [3, 1, 0, 2]}, protocol=2))
    (folder / meta["filename"]).write_bytes(pickle.dumps({meta["key"]: list("abcd")}, protocol=2))
    for path in folder.iterdir():
        sums[path.name] = hashlib.md5(path.read_bytes()).hexdigest()
    return sums


@pytest.mark.parametrize(("name", "key"), [("CIFAR10", "labels"), ("CIFAR100", "fine_labels")])
@pytest.mark.parametrize("train", [True, False])
def test_pictures_are_read_as_torchvision_reads_them(
    torch, torchvision, tmp_path, monkeypatch, name, key, train
):
    kinds = [getattr(datasets, name), getattr(torchvision.datasets, name)]
    files = [file for file, _ in kinds[0].train_list + kinds[0].test_list]
    assert kinds[0].train_list == kinds[1].train_list and kinds[0].meta == kinds[1].meta
    sums = write_pictures(tmp_path / kinds[0].base_folder, key, files, kinds[0].meta)
    with pytest.raises(RuntimeError, match="nothing is downloaded here; put them there"):
        kinds[0](tmp_path, train=train, download=True)
    for kind in kinds:
        for listed in ("train_list", "test_list"):
            monkeypatch.setattr(kind, listed, [[f, sums[f]] for f, _ in getattr(kind, listed)])
        monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": sums[kind.meta["filename"]]})
    ours, theirs = (kind(str(tmp_path), train=train) for kind in kinds)
    assert np.array_equal(ours.data, theirs.data) and ours.targets == theirs.targets
    assert ours.classes == list("abcd") and ours.class_to_idx == theirs.class_to_idx
    assert repr(ours) == repr(theirs)
    assert np.array_equal(np.asarray(ours[1][0]), np.asarray(theirs[1][0])) and ours[1][1] == 1


def test_files_of_pictures_call_nothing():
    class Call:
        def __reduce__(self):
            return print, ("called",)

    with pytest.raises(pickle.UnpicklingError, match="builtins.print, which is not called"):
        _Arrays(bytes_io.BytesIO(pickle.dumps(Call()))).load()


@pytest.fixture
def folder(tmp_path):
    for name in ("b/1.png", "b/deep/0.PNG", "a/x.jpg", "a/notes.txt", "c/y.bmp"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("txt"):
            path.write_text("no image")
        else:
            Image.fromarray(RNG.integers(0, 256, (5, 6, 3), dtype=np.uint8)).save(path)
    return tmp_path


def test_a_folder_is_read_as_torchvision_reads_it(torch, torchvision, folder):
    ours, theirs = datasets.ImageFolder(folder), torchvision.datasets.ImageFolder(folder)
    assert ours.samples == theirs.samples == ours.imgs and ours.targets == theirs.targets
    assert ours.classes == theirs.classes and ours.class_to_idx == theirs.class_to_idx
    assert np.array_equal(np.asarray(ours[2][0]), np.asarray(theirs[2][0]))
    how = {"is_valid_file": lambda path: "x" in path[-5:], "allow_empty": True}
    texts = [
        module.datasets.DatasetFolder(folder, lambda path: path[-5:], **how)
        for module in (weft.vision, torchvision)
    ]
    assert texts[0].samples == texts[1].samples and texts[0][0] == texts[1][0]
    for module in (weft.vision, torchvision):
        with pytest.raises(FileNotFoundError, match="Found no valid file"):
            module.datasets.DatasetFolder(folder, str, (".txt",))
        with pytest.raises(FileNotFoundError, match="any class folder"):
            module.datasets.ImageFolder(folder / "c")
        with pytest.raises(ValueError, match="not None at the same time"):
            module.datasets.DatasetFolder(folder, str)


def test_a_folder_feeds_a_loader(folder):
    t = transforms.Compose([transforms.Resize((4, 4)), transforms.ToTensor()])
    found = datasets.ImageFolder(folder, t, target_transform=lambda label: label + 1)
    x, y = next(iter(DataLoader(found, batch_size=4, num_workers=1)))
    assert x.shape == (4, 3, 4, 4) and y.tolist() == [1, 2, 2, 3]
    assert "StandardTransform\nTransform: Compose(\n" in repr(found).replace("    ", "")


def test_noise_is_torchvisions(torch, torchvision):
    for index in (0, 3):
        ours = datasets.FakeData(5, (3, 4, 6), 7, random_offset=2)[index]
        theirs = torchvision.datasets.FakeData(5, (3, 4, 6), 7, random_offset=2)[index]
        assert np.array_equal(np.asarray(ours[0]), np.asarray(theirs[0])) and ours[1] == theirs[1]
    before = weft.get_rng_state()
    datasets.FakeData(5)[1]
    assert weft.equal(before, weft.get_rng_state())
    with pytest.raises(IndexError, match="out of range"):
        datasets.FakeData(5)[5]


def test_transforms_are_of_both_or_of_each():
    with pytest.raises(ValueError, match="transforms or transform/target_transform"):
        datasets.VisionDataset(".", transforms=print, transform=print)
    both = datasets.VisionDataset(None, transforms=lambda x, y: (y, x))
    assert both._transformed(1, 2) == (2, 1)


GRIDS = [
    "u.make_grid(X)", "u.make_grid(X, nrow=3, padding=1, pad_value=0.5)", "u.make_grid(X[0])",
    "u.make_grid(X[:1], 3)", "u.make_grid([X[0], X[1]], nrow=1)", "u.make_grid(X[:, :1])",
    "u.make_grid(X[0, 0])", "u.make_grid(X, normalize=True)", "u.make_grid(X, nrow=9, padding=0)",
    "u.make_grid(X, normalize=True, scale_each=True)",
    "u.make_grid(X, normalize=True, value_range=(-0.5, 0.7))",
]  # fmt: skip


@pytest.mark.parametrize("text", GRIDS)
def test_a_grid_is_torchvisions(torch, torchvision, text, tmp_path):
    x = RNG.normal(size=(7, 3, 4, 5)).astype(np.float32)
    ours = eval(text, {"u": utils, "X": weft.from_numpy(x)}).numpy()
    theirs = eval(text, {"u": torchvision.utils, "X": torch.from_numpy(x)}).numpy()
    np.testing.assert_allclose(ours, theirs, 1e-6, 1e-7)
    if "normalize" in text:
        utils.save_image(weft.from_numpy(ours), tmp_path / "a.png")
        torchvision.utils.save_image(torch.from_numpy(ours), tmp_path / "b.png")
        assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_what_is_no_image_makes_no_grid(torch, torchvision):
    for lib, module in ((weft, utils), (torch, torchvision.utils)):
        with pytest.raises(TypeError, match="tensor or list of tensors expected"):
            module.make_grid(3)
        with pytest.raises(TypeError, match="value_range has to be a tuple"):
            module.make_grid(lib.zeros(2, 3, 2, 2), normalize=True, value_range=[0, 1])


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_are_written_and_read(tmp_path, channels):
    x = weft.from_numpy(RNG.integers(0, 256, (channels, 6, 7), dtype=np.uint8))
    io.write_png(x, tmp_path / "x.png", compression_level=9)
    assert weft.equal(io.read_image(tmp_path / "x.png"), x)
    assert weft.equal(io.decode_png(io.read_file(tmp_path / "x.png")), x)
    smooth = weft.full((channels, 16, 16), 90, dtype=weft.uint8)
    io.write_jpeg(smooth, tmp_path / "x.jpg", quality=95)
    assert (io.decode_jpeg([io.read_file(tmp_path / "x.jpg")])[0].int() - 90).abs().max() <= 1
    sizes = [len(io.encode_jpeg([x], q)[0]) for q in (5, 95)]
    assert sizes[0] < sizes[1]


MODES = [("UNCHANGED", 4), ("GRAY", 1), ("gray_alpha", 2), (io.ImageReadMode.RGB, 3), ("RGBA", 4)]


@pytest.mark.parametrize(("mode", "channels"), MODES)
def test_channels_are_those_of_the_mode(tmp_path, mode, channels):
    image = Image.fromarray(RNG.integers(0, 256, (5, 6, 4), dtype=np.uint8))
    image.save(tmp_path / "x.png")
    out = io.decode_image(tmp_path / "x.png", mode)
    name = getattr(mode, "name", mode).upper()
    kind = {"GRAY": "L", "GRAY_ALPHA": "LA", "UNCHANGED": "RGBA"}.get(name, name)
    expected = np.atleast_3d(np.asarray(image.convert(kind))).transpose(2, 0, 1)
    assert out.shape == (channels, 5, 6) and np.array_equal(out.numpy(), expected)


def test_a_camera_says_how_a_picture_is_turned(tmp_path):
    image = Image.fromarray(RNG.integers(0, 256, (5, 6, 3), dtype=np.uint8))
    exif = image.getexif()
    exif[0x0112] = 6  # a quarter clockwise
    image.save(tmp_path / "x.png", exif=exif)
    plain = io.read_image(tmp_path / "x.png")
    turned = io.read_image(tmp_path / "x.png", apply_exif_orientation=True)
    assert weft.equal(turned, plain.rot90(-1, (1, 2)))


WRONG = [
    ("i.decode_image(t.zeros(3))", "1-dimensional"),
    ("i.decode_image(t.arange(9).byte())", "expected an image"),
    ("i.decode_jpeg(i.encode_png(t.zeros(3, 2, 2).byte()))", "expected an image of JPEG"),
    ("i.encode_png(t.zeros(3, 2, 2))", "dtype should be uint8"),
    ("i.encode_png(t.zeros(2, 2, 2).byte())", "1 or 3"),
    ("i.encode_png(t.zeros(3, 2, 2).byte(), 10)", "between 0 and 9"),
]


@pytest.mark.parametrize(("text", "said"), WRONG, ids=[w[0] for w in WRONG])
def test_what_is_no_picture_raises(text, said):
    with pytest.raises(RuntimeError, match=said):
        eval(text, {"i": io, "t": weft})
    with pytest.raises(ValueError, match="expected a mode"):
        io.decode_image(io.encode_png(weft.zeros(3, 2, 2).byte()), "X")
    with pytest.raises(ValueError, match="between 1 and 100"):
        io.encode_jpeg(weft.zeros(3, 2, 2).byte(), 0)
