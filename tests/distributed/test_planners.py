"""Planners and storages of checkpoints: those of programs, files of safetensors, and files of `torch.save`."""

import io
import json
import os

import pytest

import flambeau as torch
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed.checkpoint.format_utils import (
    BroadcastingTorchSaveReader,
    DynamicMetaLoadPlanner,
    dcp_to_torch_save,
    torch_save_to_dcp,
)
from flambeau.distributed.checkpoint.planner import LoadItemType, WriteItemType
from flambeau.distributed.checkpoint.storage import WriteResult
from flambeau.futures import Future
from flambeau.utils.safetensors import load_file, save_file


def state(filled=True):
    return {
        "w": torch.arange(6.0).view(3, 2) if filled else torch.zeros(3, 2),
        "inner": {"b": torch.ones(2, dtype=torch.bfloat16) if filled else torch.zeros(2, dtype=torch.bfloat16)},
        "step": 4 if filled else 0,
    }


def check(found):
    assert torch.equal(found["w"], torch.arange(6.0).view(3, 2)) and found["inner"]["b"].tolist() == [1, 1]
    assert found["step"] == 4


class Renamed(dcp.DefaultLoadPlanner):
    """Reads from names that begin with "old."."""

    def create_local_plan(self):
        self.metadata.state_dict_metadata = {
            name.removeprefix("old."): about for name, about in self.metadata.state_dict_metadata.items()
        }
        plan = super().create_local_plan()
        for number, item in enumerate(plan.items):
            index = type(item.storage_index)("old." + item.storage_index.fqn, item.storage_index.offset)
            plan.items[number] = dcp.ReadItem(
                item.type, item.dest_index, item.dest_offsets, index, item.storage_offsets, item.lengths
            )
        return plan


def test_planners_rename(tmp_path):
    class Old(dcp.DefaultSavePlanner):
        def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
            assert storage_meta.checkpoint_id == str(tmp_path) and is_coordinator
            super().set_up_planner({"old." + k: v for k, v in state_dict.items()}, storage_meta, is_coordinator)

    found = dcp.save(state(), checkpoint_id=tmp_path, planner=Old())
    assert list(found.state_dict_metadata) == ["old.w", "old.inner.b", "old.step"]
    again = state(False)
    dcp.load(again, checkpoint_id=tmp_path, planner=Renamed())
    check(again)


def test_planners_change_data_and_see_every_item(tmp_path):
    seen = []

    class Half(dcp.DefaultSavePlanner):
        def transform_object(self, write_item, object):
            seen.append((write_item.index.fqn, write_item.type))
            return super().transform_object(write_item, object / 2 if torch.is_tensor(object) else object)

    class Doubled(dcp.DefaultLoadPlanner):
        def commit_tensor(self, read_item, tensor):
            tensor.mul_(2)

    dcp.save(state(), checkpoint_id=tmp_path, planner=Half())
    assert seen == [
        ("step", WriteItemType.BYTE_IO), ("w", WriteItemType.TENSOR), ("inner.b", WriteItemType.TENSOR),
    ]  # fmt: skip
    again = state(False)
    dcp.load(again, checkpoint_id=tmp_path, planner=Doubled())
    check(again)


class Memory(dcp.StorageWriter, dcp.StorageReader):
    """A storage in a dictionary."""

    def __init__(self):
        self.held, self.calls = {}, []

    def reset(self, checkpoint_id=None):
        self.calls.append("reset")

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        self.calls.append(("write", is_coordinator))

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        self.calls.append(("read", is_coordinator))

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def write_data(self, plan, planner):
        results = []
        for item in plan.items:
            data = planner.resolve_data(item)
            self.held[item.index] = data.getvalue() if isinstance(data, io.BytesIO) else data.clone()
            results.append(WriteResult(item.index, 1, None))
        future = Future()
        future.set_result(results)
        return future

    def finish(self, metadata, results):
        self.metadata = metadata
        self.calls.append(("finish", [len(one) for one in results]))

    def read_metadata(self):
        return self.metadata

    def read_data(self, plan, planner):
        for item in plan.items:
            if item.type is LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(self.held[item.storage_index]))
            else:
                target = planner.resolve_tensor(item)
                target.copy_(self.held[item.storage_index])
                planner.commit_tensor(item, target)
        future = Future()
        future.set_result(None)
        return future

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return True


@pytest.mark.parametrize("later", [False, True])
def test_a_storage_in_memory(later):
    memory = Memory()
    if later:
        kept = state()
        future = dcp.async_save(kept, storage_writer=memory)
        kept["w"].zero_()
        assert list(future.result().state_dict_metadata) == ["w", "inner.b", "step"]
    else:
        dcp.save(state(), storage_writer=memory)
    assert memory.calls == ["reset", ("write", True), ("finish", [3])]
    again = state(False)
    dcp.load(again, storage_reader=memory)
    check(again)


def test_abstract_storages_and_planners_say_what_is_missing():
    with pytest.raises(TypeError, match="abstract"):
        dcp.StorageWriter()
    with pytest.raises(TypeError, match="abstract"):
        dcp.SavePlanner()
    with pytest.raises(NotImplementedError, match="create_local_plan"):
        dcp.LoadPlanner().create_local_plan()


def test_errors_of_a_planner_are_told_with_their_rank(tmp_path):
    class Wrong(dcp.DefaultSavePlanner):
        def create_local_plan(self):
            raise KeyError("nothing")

    with pytest.raises(dcp.CheckpointException, match="KeyError: 'nothing'") as caught:
        dcp.save(state(), checkpoint_id=tmp_path, planner=Wrong())
    error, where = caught.value.failures[0]
    assert isinstance(error, KeyError) and where[-1].name == "create_local_plan"


def test_files_by_item_and_by_thread(tmp_path):
    dcp.save(state(), storage_writer=dcp.FileSystemWriter(tmp_path / "items", single_file_per_rank=False))
    assert len(list((tmp_path / "items").glob("__0_*.distcp"))) == 3
    dcp.save(state(), storage_writer=dcp.FileSystemWriter(tmp_path / "two", thread_count=2))
    assert len(list((tmp_path / "two").glob("__0_*.distcp"))) == 2
    for folder in ("items", "two"):
        again = state(False)
        dcp.load(again, checkpoint_id=tmp_path / folder)
        check(again)
    with pytest.raises(dcp.CheckpointException, match="already exists"):
        dcp.save(state(), storage_writer=dcp.FileSystemWriter(tmp_path / "two", overwrite=False))


def test_safetensors(tmp_path):
    tensors = {"w": torch.arange(6.0).view(3, 2), "b": torch.ones(2, dtype=torch.bfloat16)}
    for number, options in enumerate(
        ({"fqn_to_index_mapping": {"w": 1, "b": 2}}, {"save_distributed": True, "enable_consolidation": True})
    ):
        folder = tmp_path / str(number)
        dcp.save(tensors, storage_writer=dcp.HuggingFaceStorageWriter(str(folder), **options))
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        assert index["metadata"]["total_size"] == 28 and set(index["weight_map"]) == {"w", "b"}
        assert torch.equal(load_file(folder / index["weight_map"]["w"])["w"], tensors["w"])
        again = {name: torch.zeros_like(t) for name, t in tensors.items()}
        dcp.load(again, storage_reader=dcp.HuggingFaceStorageReader(str(folder)))
        assert all(torch.equal(again[name], t) for name, t in tensors.items())
    assert os.listdir(tmp_path / "1" / "sharded") == ["shard-00001-model-00001-of-00001.safetensors"]
    with pytest.raises(dcp.CheckpointException, match="step is no tensor"):
        dcp.save({"step": 3}, storage_writer=dcp.HuggingFaceStorageWriter(str(tmp_path / "2")))


def test_safetensors_of_rounded_weights(tmp_path):
    codes, factors = torch.arange(12.0).view(3, 4), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    save_file({"w": codes, "w_scale_inv": factors}, tmp_path / "a.safetensors")
    found = {"w": torch.zeros(3, 4)}
    dcp.load(found, storage_reader=dcp.QuantizedHuggingFaceStorageReader(str(tmp_path), block_size=2))
    assert torch.equal(found["w"], codes * factors.repeat_interleave(2, 0)[:3].repeat_interleave(2, 1))


def test_files_of_save(tmp_path):
    torch.save(state(), tmp_path / "whole.pt")
    torch_save_to_dcp(tmp_path / "whole.pt", tmp_path / "parts")
    dcp_to_torch_save(tmp_path / "parts", tmp_path / "again.pt")
    check(torch.load(tmp_path / "again.pt"))
    only = {"w": torch.zeros(3, 2), "inner": {"b": torch.zeros(2, dtype=torch.bfloat16)}}
    dcp.load(
        only,
        storage_reader=BroadcastingTorchSaveReader(),
        planner=DynamicMetaLoadPlanner(),
        checkpoint_id=tmp_path / "whole.pt",
    )
    check({**only, "step": 4})
    with pytest.raises(dcp.CheckpointException, match="Non-tensor value identified at step"):
        dcp.load(
            state(False),
            storage_reader=BroadcastingTorchSaveReader(tmp_path / "whole.pt"),
            planner=DynamicMetaLoadPlanner(),
        )


def test_the_state_of_an_optimizer(tmp_path):
    model = torch.nn.Linear(2, 1)
    momentum = {name: {"momentum_buffer": torch.full_like(p, 3.0)} for name, p in model.state_dict().items()}
    dcp.save({"model": model.state_dict(), "optim": {"state": momentum, "lr": 0.5}}, checkpoint_id=tmp_path)
    found = dcp.load_sharded_optimizer_state_dict(model.state_dict(), "optim", dcp.FileSystemReader(tmp_path))
    assert list(found) == ["optim"] and found["optim"]["lr"] == 0.5
    assert found["optim"]["state"]["weight"]["momentum_buffer"].tolist() == [[3, 3]]


def test_overlapping_parts_are_refused():
    from flambeau.distributed.checkpoint.default_planner import _check_parts
    from flambeau.distributed.checkpoint.metadata import TensorProperties

    def parts(*chunks):
        made = [dcp.ChunkStorageMetadata(torch.Size(o), torch.Size(n)) for o, n in chunks]
        return dcp.Metadata({"w": dcp.TensorStorageMetadata(TensorProperties(), torch.Size([4, 2]), made)})

    _check_parts(parts(([0, 0], [2, 2]), ([2, 0], [2, 2])))
    for wrong, said in (
        ([([0, 0], [3, 2]), ([2, 0], [2, 1])], "overlap"),
        ([([0, 0], [2, 2])], "do not make up the whole"),
        ([([3, 0], [2, 2])], "outside"),
    ):
        with pytest.raises(ValueError, match=said):
            _check_parts(parts(*wrong))
