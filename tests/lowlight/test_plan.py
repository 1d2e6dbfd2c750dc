"""Which files are taken and where results go: no original and no result is ever written over."""

import os

import pytest

from tecu.lowlight.files import READABLE
from tecu.lowlight.plan import Task, plan, survey


def touch(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def pairs(tasks, folder):
    return {
        os.path.relpath(task.source, folder): os.path.relpath(task.target, folder).replace(os.sep, "/")
        for task in tasks
    }


def test_a_file_to_a_file(tmp_path):
    touch(tmp_path / "a.jpg")
    tasks, refusals = plan([str(tmp_path / "a.jpg")], str(tmp_path / "b.png"))
    assert pairs(tasks, tmp_path) == {"a.jpg": "b.png"}
    assert refusals == []


@pytest.mark.parametrize("out", ["out", "out/", "there"])
def test_a_file_to_a_folder(tmp_path, out):
    touch(tmp_path / "a.jpg")
    (tmp_path / "there").mkdir()
    tasks, _ = plan([str(tmp_path / "a.jpg")], f"{tmp_path}/{out}")
    assert pairs(tasks, tmp_path) == {"a.jpg": f"{out.rstrip('/')}/a.jpg"}


def test_without_a_target_the_result_stands_beside(tmp_path):
    touch(tmp_path / "a.jpg", tmp_path / "b.heic", tmp_path / "c.NEF")
    tasks, _ = plan([str(tmp_path / name) for name in ("a.jpg", "b.heic", "c.NEF")], None)
    assert pairs(tasks, tmp_path) == {
        "a.jpg": "a-enhanced.jpg",
        "b.heic": "b-enhanced.jpg",
        "c.NEF": "c-enhanced.tif",
    }


def test_a_tree_is_mirrored(tmp_path):
    photos = tmp_path / "photos"
    touch(photos / "a.jpg", photos / "notes.txt", photos / "x" / "b.PNG", photos / "x" / "y" / "c.heic")
    (photos / "folder.jpg").mkdir()
    touch(photos / "folder.jpg" / "d.webp")
    flat, _ = plan([str(photos)], str(tmp_path / "out"))
    assert pairs(flat, tmp_path) == {"photos/a.jpg": "out/a.jpg"}
    deep, _ = plan([str(photos)], str(tmp_path / "out"), recursive=True)
    assert pairs(deep, tmp_path) == {
        "photos/a.jpg": "out/a.jpg",
        "photos/x/b.PNG": "out/x/b.PNG",
        "photos/x/y/c.heic": "out/x/y/c.jpg",
        "photos/folder.jpg/d.webp": "out/folder.jpg/d.webp",
    }


def test_results_inside_the_tree_are_not_taken_again(tmp_path):
    touch(tmp_path / "a.jpg", tmp_path / "out" / "a.jpg")
    tasks, _ = plan([str(tmp_path)], str(tmp_path / "out"), recursive=True)
    assert pairs(tasks, tmp_path) == {"a.jpg": "out/a.jpg"}


def test_links_to_folders_are_not_followed(tmp_path):
    touch(tmp_path / "in" / "a.jpg")
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    tasks, _ = plan([str(tmp_path / "in")], str(tmp_path / "out"), recursive=True)
    assert len(tasks) == 1


def test_patterns(tmp_path):
    touch(tmp_path / "a.jpg", tmp_path / "b.jpg", tmp_path / "c.png", tmp_path / "d" / "e.jpg")
    tasks, _ = plan([f"{tmp_path}/*.jpg"], f"{tmp_path}/out")
    assert set(pairs(tasks, tmp_path)) == {"a.jpg", "b.jpg"}
    tasks, _ = plan([f"{tmp_path}/**/*.jpg"], f"{tmp_path}/out")
    assert set(pairs(tasks, tmp_path)) == {"a.jpg", "b.jpg", "d/e.jpg"}
    _, refusals = plan([f"{tmp_path}/*.tif"], f"{tmp_path}/out")
    assert [refusal.reason for refusal in refusals] == [f"nothing matches {tmp_path}/*.tif"]


def test_a_name_with_brackets_is_a_name_first(tmp_path):
    touch(tmp_path / "a[1].jpg", tmp_path / "a1.jpg")
    tasks, _ = plan([f"{tmp_path}/a[1].jpg"], f"{tmp_path}/b.jpg")
    assert pairs(tasks, tmp_path) == {"a[1].jpg": "b.jpg"}


def test_an_original_is_never_a_target(tmp_path):
    touch(tmp_path / "a.jpg", tmp_path / "sub" / "a.jpg")
    (tmp_path / "link.jpg").symlink_to("a.jpg")
    os.link(tmp_path / "a.jpg", tmp_path / "hard.jpg")
    for target in ("a.jpg", "./a.jpg", "sub/../a.jpg", "link.jpg", "hard.jpg"):
        tasks, refusals = plan([f"{tmp_path}/a.jpg"], f"{tmp_path}/{target}")
        assert tasks == []
        assert "never written over" in refusals[0].reason
        assert refusals[0].unwritable
    # not its own original, but another one of the run
    tasks, refusals = plan([f"{tmp_path}/a.jpg", f"{tmp_path}/sub/a.jpg"], str(tmp_path))
    assert tasks == []
    assert len(refusals) == 2


def test_two_results_never_share_a_name(tmp_path):
    touch(tmp_path / "x" / "a.jpg", tmp_path / "y" / "a.jpg", tmp_path / "x" / "a.heic")
    tasks, refusals = plan([f"{tmp_path}/x/a.jpg", f"{tmp_path}/y/a.jpg", f"{tmp_path}/x/a.heic"], f"{tmp_path}/out")
    assert pairs(tasks, tmp_path) == {"x/a.jpg": "out/a.jpg"}
    assert all("would both become" in refusal.reason for refusal in refusals)
    assert len(refusals) == 2


def test_a_file_named_twice_is_done_once(tmp_path):
    touch(tmp_path / "a.jpg")
    tasks, refusals = plan([f"{tmp_path}/a.jpg", f"{tmp_path}/a.jpg", str(tmp_path)], f"{tmp_path}/out")
    assert len(tasks) == 1
    assert refusals == []


def test_an_empty_folder_is_named(tmp_path):
    _, refusals = plan([str(tmp_path)], f"{tmp_path}/out")
    assert "holds no photos; -r looks into its folders too" in refusals[0].reason


def test_streams():
    assert plan(["-"], None)[0] == [Task("-", "-")]
    assert plan(["-"], "a.png")[0] == [Task("-", "a.png")]
    assert plan(["a.png"], "-")[0] == [Task("a.png", "-")]
    with pytest.raises(ValueError, match="single input"):
        plan(["-", "a.png"], "-")


@pytest.mark.parametrize("out", ["a.gif", "a.xyz"])
def test_a_target_that_is_not_written_is_named(tmp_path, out):
    touch(tmp_path / "a.jpg")
    with pytest.raises(ValueError, match="cannot be written"):
        plan([f"{tmp_path}/a.jpg"], f"{tmp_path}/{out}")


@pytest.mark.parametrize("inputs", [["a.jpg", "b.jpg"], ["."], ["*.jpg"]])
def test_the_name_of_a_file_is_no_folder_for_several_inputs(tmp_path, monkeypatch, inputs):
    monkeypatch.chdir(tmp_path)
    touch(tmp_path / "a.jpg", tmp_path / "b.jpg")
    for out in ("bright.jpg", "bright.mp4"):
        with pytest.raises(ValueError, match=rf"{out}: this is the name of one file.*give -o a folder"):
            survey(inputs, out)
    assert len(survey(inputs, "bright.jpg/").tasks) == 2
    (tmp_path / "bright.jpg").mkdir()
    assert len(survey(inputs, "bright.jpg").tasks) == 2
    assert len(survey(inputs, "photos.2026").tasks) == 2


def test_no_input():
    with pytest.raises(ValueError, match="at least one"):
        plan([], "out")


def test_stdin_needs_a_file_name(tmp_path):
    with pytest.raises(ValueError, match="has no name"):
        plan(["-"], str(tmp_path))


def test_results_of_an_earlier_run_beside_the_photos_are_not_taken_again(tmp_path):
    for name in ("a.jpg", "a-enhanced.jpg", "a-enhanced-illumination.png", "b-enhanced.jpg", "c.dng", "c-enhanced.tif"):
        (tmp_path / name).touch()
    tasks, refusals = plan([str(tmp_path)], None)
    assert [os.path.basename(task.source) for task in tasks] == ["a.jpg", "b-enhanced.jpg", "c.dng"]
    assert refusals == []


@pytest.mark.parametrize("by_pattern", [False, True])
def test_results_of_an_earlier_run_that_the_shell_names_are_not_taken_again(tmp_path, by_pattern):
    names = ["a-enhanced-enhanced.jpg", "a-enhanced.jpg", "a.jpg", "b-enhanced.jpg", "deep/a-enhanced.jpg"]
    touch(*(tmp_path / name for name in names))
    inputs = [str(tmp_path / "**" / "*.jpg")] if by_pattern else [str(tmp_path / name) for name in names]
    surveyed = survey(inputs, None)
    assert pairs(surveyed.tasks, tmp_path) == {
        "a.jpg": "a-enhanced.jpg",
        "b-enhanced.jpg": "b-enhanced-enhanced.jpg",  # whose original is not among the inputs
        "deep/a-enhanced.jpg": "deep/a-enhanced-enhanced.jpg",
    }
    assert sorted(os.path.basename(path) for path in surveyed.earlier) == names[:2]
    assert surveyed.refusals == []
    assert len(survey(inputs, str(tmp_path / "out/")).tasks) + len(survey(inputs, str(tmp_path / "out/")).refusals) == 5


def test_a_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    real = os.scandir

    def scandir(path):
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    (tmp_path / "locked").mkdir()
    (tmp_path / "a.jpg").touch()
    monkeypatch.setattr(os, "scandir", scandir)
    tasks, refusals = plan([str(tmp_path)], str(tmp_path / "out"), recursive=True)
    assert len(tasks) == 1
    assert [refused.reason for refused in refusals] == [f"{tmp_path / 'locked'} could not be read: permission denied"]


def test_photos_and_videos_do_not_take_each_others_names(tmp_path):
    for name in ("a.jpg", "a.mp4"):
        (tmp_path / name).touch()
    for source, out in (("a.jpg", "x.mp4"), ("a.mp4", "x.jpg")):
        with pytest.raises(ValueError, match="this is the name of a"):
            plan([str(tmp_path / source)], str(tmp_path / out))
    with pytest.raises(ValueError, match="cannot be written"):
        plan(["-"], str(tmp_path / "x.xyz"))


def test_a_file_spelled_in_two_ways_is_done_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jpg").touch()
    tasks, refusals = plan(["a.jpg", "./a.jpg"], "out")
    assert len(tasks) == 1
    assert refusals == []


def others_of(folder, *more, **options):
    return sorted(os.path.relpath(path, folder) for path in survey([str(folder), *more], None, **options).others)


def test_what_a_folder_holds_beside_photos_is_counted_but_for_hidden_files_and_results(tmp_path):
    touch(*(tmp_path / name for name in ("a.jpg", "b.gif", "c.ppm", "no_suffix", "clip.mp4", "notes.txt")))
    touch(tmp_path / ".DS_Store", tmp_path / ".cache" / "index", tmp_path / "sub" / "d.txt")
    touch(tmp_path / "a-enhanced.jpg", tmp_path / "a-enhanced-illumination.png", tmp_path / "clip-enhanced.mp4")
    flat = ["b.gif", "c.ppm", "clip.mp4", "no_suffix", "notes.txt"]
    assert others_of(tmp_path) == flat
    assert others_of(tmp_path, recursive=True) == [*flat, "sub/d.txt"]
    assert others_of(tmp_path, str(tmp_path), str(tmp_path / "sub" / "..")) == flat  # each once
    named = [str(tmp_path / "clip.mp4"), str(tmp_path / "no_suffix")]
    assert others_of(tmp_path, *named) == ["b.gif", "c.ppm", "notes.txt"]  # these two are taken


def test_hidden_files_and_folders_are_left_alone_unless_they_are_named(tmp_path):
    touch(*(tmp_path / name for name in ("a.jpg", "._a.jpg", ".thumbnails/a.jpg", "sub/.trash/b/c.jpg", "sub/d.jpg")))
    taken = plan([str(tmp_path)], str(tmp_path / "out"), recursive=True)[0]
    assert set(pairs(taken, tmp_path)) == {"a.jpg", os.path.join("sub", "d.jpg")}
    for named in ("._a.jpg", ".thumbnails", ".thumbnails/a.jpg"):
        assert len(plan([str(tmp_path / named)], str(tmp_path / "out"))[0]) == 1


def test_every_file_of_a_folder_is_taken_or_counted_or_a_result(tmp_path):
    for suffix in (*READABLE, ".gif", ".txt", ".mp4", ""):
        touch(tmp_path / f"of {suffix[1:]}{suffix}")
    surveyed = survey([str(tmp_path)], str(tmp_path / "out"))
    taken = {task.source for task in surveyed.tasks}
    assert taken | set(surveyed.others) == {str(path) for path in tmp_path.iterdir()}
    assert len(surveyed.others) == 4


def test_pictures_of_a_stereo_camera_are_photos_and_become_jpeg(tmp_path):
    touch(tmp_path / "a.MPO")
    assert pairs(plan([str(tmp_path)], f"{tmp_path}/out")[0], tmp_path) == {"a.MPO": "out/a.jpg"}
    assert pairs(plan([str(tmp_path)], None)[0], tmp_path) == {"a.MPO": "a-enhanced.jpg"}
