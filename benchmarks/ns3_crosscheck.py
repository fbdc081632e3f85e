"""The simulator against ns-3, a packet-level simulator that others wrote.

    pip install ns3        # a wheel, made for the system's own Python
    python benchmarks/ns3_crosscheck.py [--size 16MB] [--only ring]

The same plans on the same links, in ns-3 with TCP New Reno, DropTail queues of 256 KB and a least
timeout of 10 ms: workers that push to a parameter server at once and get the sum back, a ring on a
fat-tree with the ways that the simulator's ECMP drew, and two rings over a spine with too little
bandwidth for both. Frames there have 2 bytes of PPP instead of 14 of Ethernet, which rates make up
for.

What it printed is in testbed/backends/flow/README.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

from testbed.backends.flow.routes import Links, Ways
from testbed.backends.flow.scenario import Assumptions, Job
from testbed.backends.flow.simulate import simulate
from testbed.plan.program import Plan
from testbed.plan.stages import Stages, stretches
from testbed.plan.units import Unit
from testbed.systems import Assignment, registry
from testbed.topology.builders import fat_tree, leaf_spine
from testbed.topology.fabric import Fabric
from testbed.topology.framing import Framing
from testbed.units import format_size, parse_size

QUEUE = 256_000
HOP_S = 1e-6
ETHERNET, PPP = Framing().full_frame, Framing().mtu + 2

MODEL = r"""
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

namespace crosscheck {
using namespace ns3;

// A TCP connection that sends no more than it is allowed to, and tells what has arrived.
struct Flow {
    Ptr<Socket> sender, listener, receiver;
    uint64_t allowed = 0, sent = 0, received = 0;
    std::function<void(uint64_t)> on_receive;

    void Push() {
        while (sent < allowed) {
            uint64_t size = std::min<uint64_t>({allowed - sent, sender->GetTxAvailable(), 65536});
            int taken = size ? sender->Send(Create<Packet>(size)) : 0;
            if (taken <= 0) return;
            sent += taken;
        }
    }
    void Allow(uint64_t bytes) { allowed = std::max(allowed, bytes); Push(); }
    void CanSend(Ptr<Socket>, uint32_t) { Push(); }
    void Arrived(Ptr<Socket> socket) {
        uint64_t before = received;
        while (Ptr<Packet> packet = socket->Recv()) {
            if (!packet->GetSize()) break;
            received += packet->GetSize();
        }
        if (received > before) on_receive(received);
    }
    void Accepted(Ptr<Socket> socket, const Address&) {
        receiver = socket;
        socket->SetRecvCallback(MakeCallback(&Flow::Arrived, this));
    }
};

struct Network {
    NodeContainer nodes;
    std::vector<std::map<int, std::pair<uint32_t, Ipv4Address>>> neighbours;
    std::vector<Ipv4Address> address;
    std::vector<std::unique_ptr<Flow>> flows;
    std::vector<double> done;
    int subnet = 0;

    explicit Network(int count) : neighbours(count), address(count) {
        Config::SetDefault("ns3::TcpL4Protocol::SocketType",
                           TypeIdValue(TypeId::LookupByName("ns3::TcpNewReno")));
        Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
        Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
        Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(256000));
        Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(256000));
        // With SACK some of its flows stall for ever after losing much of a window.
        Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(false));
        Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(10)));
        Config::SetDefault("ns3::RttEstimator::InitialEstimation", TimeValue(MilliSeconds(10)));
        nodes.Create(count);
        InternetStackHelper().Install(nodes);
    }
    void Link(int a, int b, double rate, double delay, int queue, bool from_host) {
        PointToPointHelper helper;
        helper.SetDeviceAttribute("DataRate", DataRateValue(DataRate((uint64_t) rate)));
        helper.SetChannelAttribute("Delay", TimeValue(Seconds(delay)));
        helper.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize",
                        StringValue(std::to_string(queue) + "B"));
        NetDeviceContainer devices = helper.Install(nodes.Get(a), nodes.Get(b));
        // A host does not drop what its own sockets send (Linux holds them back instead).
        if (from_host) {
            auto own = CreateObject<DropTailQueue<Packet>>();
            own->SetMaxSize(QueueSize("1000MB"));
            DynamicCast<PointToPointNetDevice>(devices.Get(0))->SetQueue(own);
        }
        uint32_t base = (10u << 24) + (uint32_t)(subnet++ << 2);
        Ipv4AddressHelper addresses{Ipv4Address(base), Ipv4Mask("255.255.255.252")};
        Ipv4InterfaceContainer ends = addresses.Assign(devices);
        TrafficControlHelper().Uninstall(devices);
        neighbours[a][b] = {ends.Get(0).second, ends.GetAddress(1)};
        neighbours[b][a] = {ends.Get(1).second, ends.GetAddress(0)};
        address[a] = ends.GetAddress(0);
        address[b] = ends.GetAddress(1);
    }
    void Route(int at, int host, int hop) {
        auto [interface, gateway] = neighbours[at][hop];
        Ipv4StaticRoutingHelper helper;
        helper.GetStaticRouting(nodes.Get(at)->GetObject<Ipv4>())
            ->AddHostRouteTo(address[host], gateway, interface);
    }
    Flow* Connect(int a, int b) {
        static uint16_t port = 1000;
        flows.push_back(std::make_unique<Flow>());
        Flow* flow = flows.back().get();
        InetSocketAddress at(address[b], ++port);
        flow->listener = Socket::CreateSocket(nodes.Get(b), TcpSocketFactory::GetTypeId());
        flow->listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), port));
        flow->listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                          MakeCallback(&Flow::Accepted, flow));
        flow->listener->Listen();
        flow->sender = Socket::CreateSocket(nodes.Get(a), TcpSocketFactory::GetTypeId());
        flow->sender->SetSendCallback(MakeCallback(&Flow::CanSend, flow));
        flow->sender->Bind();
        flow->sender->Connect(at);
        return flow;
    }
    // Every position sends a chunk, and another one for each that it has received.
    void Ring(std::vector<int> hosts, uint64_t chunk) {
        size_t count = hosts.size(), number = done.size();
        done.push_back(0);
        auto own = std::make_shared<std::vector<Flow*>>();
        for (size_t i = 0; i < count; i++)
            own->push_back(Connect(hosts[i], hosts[(i + 1) % count]));
        uint64_t total = 2 * (count - 1) * chunk;
        for (size_t i = 0; i < count; i++) {
            Flow* next = (*own)[(i + 1) % count];
            (*own)[i]->on_receive = [=, this](uint64_t received) {
                next->Allow(std::min(total, chunk * (1 + received / chunk)));
                if (received == total) done[number] = Simulator::Now().GetSeconds();
            };
            Simulator::Schedule(Seconds(START), [=] { (*own)[i]->Allow(chunk); });
        }
    }
    // Every worker pushes; the server answers them all when it has everything.
    void Server(std::vector<int> workers, int server, uint64_t size) {
        size_t number = done.size();
        done.push_back(0);
        auto left = std::make_shared<size_t>(workers.size());
        auto down = std::make_shared<std::vector<Flow*>>();
        for (int worker : workers) {
            Flow* up = Connect(worker, server);
            down->push_back(Connect(server, worker));
            down->back()->on_receive = [=, this](uint64_t received) {
                if (received == size) done[number] = Simulator::Now().GetSeconds();
            };
            up->on_receive = [=](uint64_t received) {
                if (received == size && !--*left)
                    for (Flow* flow : *down) flow->Allow(size);
            };
            Simulator::Schedule(Seconds(START), [=] { up->Allow(size); });
        }
    }
    std::vector<double> Run() {
        Simulator::Stop(Seconds(100));
        Simulator::Run();
        Simulator::Destroy();
        std::vector<double> times;
        for (double each : done) times.push_back(each - START);
        return times;
    }
    static constexpr double START = 0.1;
};
}
"""


@dataclass(frozen=True)
class Case:
    name: str
    fabric: Fabric
    plans: Sequence[Plan]


def cases() -> Iterator[Case]:
    rate = 1e10
    for workers in (4, 8, 16):
        rack = leaf_spine(1, 1, workers + 1, rate, rate, QUEUE)
        job = Assignment(rack.hosts[:-1], rack.hosts[-1:])
        push = replace(registry["ps"].plan(job, rack), partition=None)
        yield Case(f"incast of {workers} workers to a PS", rack, [push])
    tree = fat_tree(4, 2, rate, rate, QUEUE)
    for order in ("rack", "naive"):
        job = Assignment(tree.hosts, options={"order": order})
        yield Case(f"ring of 16, {order} order, fat-tree", tree, [registry["ring"].plan(job, tree)])
    narrow = leaf_spine(1, 2, 4, rate, rate, QUEUE)
    rings = [
        registry["ring"].plan(Assignment(tuple(f"h{i}" for i in own)), narrow)
        for own in ((0, 1, 4, 5), (2, 3, 6, 7))
    ]
    yield Case("two rings of 4 over one spine", narrow, rings)
    yield Case("one ring of 4 over one spine", narrow, rings[:1])


def ours(case: Case, size: int) -> list[float]:
    jobs = [
        Job(plan, (Unit(0, 0, size // 4, 0.0),), 0.0, ((1.0,),) * plan.workers)
        for plan in case.plans
    ]
    timeline = simulate(case.fabric, jobs, Assumptions(hop_s=HOP_S))
    return [timeline.jct_s(number) for number in range(len(jobs))]


def theirs(case: Case, size: int) -> list[float]:
    """The same in ns-3; routes follow the ways of the simulator's flows."""
    from ns import ns

    ns.cppyy.cppdef(MODEL)
    number = {node: index for index, node in enumerate(case.fabric.nodes)}
    network = ns.cppyy.gbl.crosscheck.Network(len(number))
    for link in case.fabric.links:
        rate = link.rate * PPP / ETHERNET
        from_host = link.a in case.fabric.hosts
        network.Link(number[link.a], number[link.b], rate, HOP_S, link.queue, from_host)
    for node, host, hop in routes(case):
        network.Route(number[node], number[host], number[hop])
    for plan in case.plans:
        hosts = [number[host] for host in plan.hosts]
        if isinstance(plan.programs, Stages):
            around = [hosts[source] for source, _ in hops_around(plan)]
            network.Ring(around, size // 4 // len(hosts) * 4)
        else:
            network.Server(hosts[: plan.workers], hosts[-1], size)
    return list(network.Run())


def routes(case: Case) -> list[tuple[str, str, str]]:
    """(node, destination, next hop) of every flow, data before acknowledgements."""
    links = Links(case.fabric)
    table: dict[tuple[str, str], str] = {}
    for acknowledging in (False, True):
        for number, plan in enumerate(case.plans):
            job = Job(plan, (), 0.0, ((1.0,),) * plan.workers)
            ways = Ways(case.fabric, links, Assumptions(), job, f"job {number}")
            for source, to in pairs(plan):
                ends = (to, source) if acknowledging else (source, to)
                for link, _ in ways.way(*ends):
                    node, hop = links.ends[link]
                    table.setdefault((node, ends[1]), hop)
    return [(node, host, hop) for (node, host), hop in table.items()]


def hops_around(plan: Plan) -> list[tuple[int, int]]:
    """The ring of a plan that has no other."""
    ((ring,),) = stretches(plan)
    return [hop for hop in ring.hops if isinstance(hop, tuple)]


def pairs(plan: Plan) -> list[tuple[str, str]]:
    """Hosts that send and receive."""
    if isinstance(plan.programs, Stages):
        hops = hops_around(plan)
    else:
        hops = [(rank, plan.workers) for rank in range(plan.workers)]
        hops += [(to, source) for source, to in hops]
    return [(plan.hosts[source], plan.hosts[to]) for source, to in hops]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=parse_size, default=16_000_000)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    asked = parser.parse_args()
    size = asked.size
    print(f"gradients of {format_size(size)}")
    print(f"{'case':36} {'simulator':>10} {'ns-3':>10} {'error':>7}")
    for case in (each for each in cases() if asked.only in each.name):
        # There is one network in an ns-3 process.
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            packets = process.submit(theirs, case, size).result()
        for flows, each in zip(ours(case, size), packets, strict=True):
            print(f"{case.name:36} {flows:10.5f} {each:10.5f} {flows / each - 1:+7.1%}", flush=True)


if __name__ == "__main__":
    main()
