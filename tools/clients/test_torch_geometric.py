"""torch-geometric: graphs and batches, message passing, pooling, transforms, loaders and training."""

import pytest
import torch
import torch_geometric
from torch import nn
from torch_geometric import nn as gnn
from torch_geometric import transforms, utils
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader
from torch_geometric.nn.resolver import aggregation_resolver

EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 2, 0], [1, 0, 2, 1, 4, 3, 3, 4]])
CONVOLUTIONS = {
    "GCN": lambda: gnn.GCNConv(4, 3), "SAGE": lambda: gnn.SAGEConv(4, 3), "GAT": lambda: gnn.GATConv(4, 3, heads=2),
    "GATv2": lambda: gnn.GATv2Conv(4, 3), "GIN": lambda: gnn.GINConv(nn.Linear(4, 3)), "Cheb": lambda: gnn.ChebConv(4, 3, K=2),
    "Graph": lambda: gnn.GraphConv(4, 3), "TAG": lambda: gnn.TAGConv(4, 3), "SG": lambda: gnn.SGConv(4, 3, K=2),
    "ARMA": lambda: gnn.ARMAConv(4, 3), "Transformer": lambda: gnn.TransformerConv(4, 3), "LE": lambda: gnn.LEConv(4, 3),
    "Edge": lambda: gnn.EdgeConv(nn.Linear(8, 3)), "Feast": lambda: gnn.FeaStConv(4, 3), "Gated": lambda: gnn.GatedGraphConv(4, 2),
    "ResGated": lambda: gnn.ResGatedGraphConv(4, 3), "Cluster": lambda: gnn.ClusterGCNConv(4, 3), "PNA": None,
    "General": lambda: gnn.GeneralConv(4, 3), "AGNN": lambda: gnn.AGNNConv(), "APPNP": lambda: gnn.APPNP(3, 0.1),
    "Hyper": lambda: gnn.HypergraphConv(4, 3), "MF": lambda: gnn.MFConv(4, 3),
}  # fmt: skip


def _graph(nodes=5, seed=0):
    torch.manual_seed(seed)
    return Data(x=torch.randn(nodes, 4), edge_index=EDGES.clone(), y=torch.randint(0, 2, (1,)))


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name, record_property):
    data = _graph()
    torch.manual_seed(1)
    make = CONVOLUTIONS[name]
    if make is None:
        degrees = torch.bincount(utils.degree(EDGES[1], 5, dtype=torch.long))
        layer = gnn.PNAConv(4, 3, ["mean", "max", "std"], ["identity", "amplification"], deg=degrees)
    else:
        layer = make()
    x = data.x.clone().requires_grad_()
    out = layer(x, data.edge_index)
    out.pow(2).sum().backward()
    record_property("out", out.flatten().tolist())
    record_property("grad", x.grad.flatten().tolist())
    record_property("parameters", [float(p.grad.abs().sum()) for p in layer.parameters() if p.grad is not None])


@pytest.mark.parametrize(
    "aggregate", ["sum", "mean", "max", "min", "mul", "var", "std", "softmax", "powermean", "median"]
)
def test_aggregations(aggregate, record_property):
    torch.manual_seed(0)
    x, index = torch.rand(7, 3), torch.tensor([0, 0, 1, 1, 1, 3, 3])
    made = aggregation_resolver(aggregate)(x, index)
    record_property("out", made.flatten().tolist())


def test_own_message_passing(record_property):
    class Own(gnn.MessagePassing):
        def __init__(self):
            super().__init__(aggr="max")
            self.net = nn.Linear(8, 2)

        def forward(self, x, edge_index):
            return self.propagate(edge_index, x=x)

        def message(self, x_i, x_j):
            return self.net(torch.cat([x_i, x_j - x_i], -1))

    data = _graph()
    torch.manual_seed(1)
    record_property("out", Own()(data.x, data.edge_index).flatten().tolist())


def test_batches_and_loaders(record_property):
    graphs = [_graph(seed=i) for i in range(4)]
    batch = Batch.from_data_list(graphs)
    assert batch.num_graphs == 4 and batch.ptr.tolist() == [0, 5, 10, 15, 20]
    assert torch.equal(batch[2].x, graphs[2].x)
    loader = DataLoader(graphs, batch_size=2)
    record_property("sums", [float(b.x.sum()) for b in loader])
    record_property("repr", repr(batch))


def test_pooling(record_property):
    batch = Batch.from_data_list([_graph(seed=i) for i in range(3)])
    for name in ("global_add_pool", "global_mean_pool", "global_max_pool"):
        record_property(name, getattr(gnn, name)(batch.x, batch.batch).flatten().tolist())
    torch.manual_seed(1)
    _, edges, _, groups, kept, score = gnn.TopKPooling(4, 0.5)(batch.x, batch.edge_index, None, batch.batch)
    record_property("topk", [kept.tolist(), score.tolist(), edges.tolist(), groups.tolist()])
    dense, mask = utils.to_dense_batch(batch.x, batch.batch)
    record_property("dense", [list(dense.shape), mask.sum().item()])


def test_training_on_graphs(record_property):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = gnn.GCNConv(4, 8), gnn.GCNConv(8, 8)
            self.norm, self.head = gnn.BatchNorm(8), nn.Linear(8, 2)

        def forward(self, x, edge_index, batch):
            x = self.norm(self.one(x, edge_index)).relu()
            x = self.two(x, edge_index).relu()
            return self.head(gnn.global_mean_pool(x, batch))

    torch.manual_seed(2)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for _ in range(3):
        for batch in DataLoader([_graph(seed=i) for i in range(8)], batch_size=4):
            loss = nn.functional.cross_entropy(model(batch.x, batch.edge_index, batch.batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    record_property("losses", losses)


def test_transforms(record_property):
    data = _graph()
    made = transforms.Compose([transforms.ToUndirected(), transforms.AddSelfLoops(), transforms.NormalizeFeatures()])(
        data
    )
    record_property("edges", made.edge_index.tolist())
    record_property("x", made.x.flatten().tolist())
    pos = transforms.KNNGraph  # needs another package; only its name
    assert pos is not None
    walk = transforms.AddRandomWalkPE(3)(_graph())
    record_property("walk", walk.random_walk_pe.flatten().tolist())


def test_utilities(record_property):
    record_property("degree", utils.degree(EDGES[0], 5).tolist())
    record_property("undirected", utils.to_undirected(EDGES).tolist())
    record_property("loops", utils.add_self_loops(EDGES)[0].tolist())
    record_property("coalesced", utils.coalesce(torch.cat([EDGES, EDGES], 1)).tolist())
    record_property("dense", utils.to_dense_adj(EDGES).flatten().tolist())
    record_property("softmax", utils.softmax(torch.arange(8.0), EDGES[1]).tolist())
    index, weight = utils.get_laplacian(EDGES, normalization="sym")
    record_property("laplacian", [index.tolist(), weight.tolist()])
    record_property("subgraph", utils.subgraph([0, 1, 2], EDGES)[0].tolist())
    record_property("hops", [t.tolist() for t in utils.k_hop_subgraph(0, 2, EDGES)[:2]])
    record_property(
        "has", [utils.is_undirected(EDGES), utils.contains_self_loops(EDGES), utils.contains_isolated_nodes(EDGES)]
    )
    record_property("scatter", utils.scatter(torch.arange(8.0), EDGES[1], reduce="mean").tolist())


def test_heterogeneous_graphs(record_property):
    torch.manual_seed(0)
    data = HeteroData()
    data["user"].x, data["item"].x = torch.randn(3, 4), torch.randn(2, 5)
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 0]])
    data["item", "of", "user"].edge_index = torch.tensor([[0, 1, 0], [0, 1, 2]])
    torch.manual_seed(1)
    layer = gnn.HeteroConv(
        {("user", "buys", "item"): gnn.SAGEConv((4, 5), 3), ("item", "of", "user"): gnn.SAGEConv((5, 4), 3)}, aggr="sum"
    )
    made = layer(data.x_dict, data.edge_index_dict)
    record_property("user", made["user"].flatten().tolist())
    record_property("item", made["item"].flatten().tolist())
    record_property("types", [list(data.node_types), [list(t) for t in data.edge_types]])


@pytest.mark.parametrize("name", ["GCN", "GraphSAGE", "GIN", "GAT"])
def test_whole_models(name, record_property):
    data = _graph()
    torch.manual_seed(1)
    model = getattr(gnn, name)(4, 8, num_layers=2, out_channels=2, norm="layer").eval()
    record_property("out", model(data.x, data.edge_index).flatten().tolist())
    record_property("repr", repr(model))


def test_node2vec_and_autoencoder(record_property):
    data = _graph()
    torch.manual_seed(1)
    auto = gnn.GAE(gnn.GCNConv(4, 3))
    z = auto.encode(data.x, data.edge_index)
    record_property("loss", float(auto.recon_loss(z, data.edge_index, torch.tensor([[0], [2]]))))
    variational = gnn.VGAE(gnn.GCNConv(4, 6))
    assert variational is not None


def test_sparse_adjacency(record_property):
    data = _graph()
    torch.manual_seed(1)
    layer = gnn.GraphConv(4, 3)
    adjacency = utils.to_torch_csr_tensor(data.edge_index, size=(5, 5))
    record_property("same", float((layer(data.x, adjacency.t()) - layer(data.x, data.edge_index)).abs().max()))


def test_version():
    assert torch_geometric.__version__ == "2.8.1"
