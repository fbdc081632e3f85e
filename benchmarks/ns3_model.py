"""A network of hosts and routers in ns-3, with TCP connections that carry a ring or an incast.

ns-3's wheel is optional: ``pip install ns3`` for the system's own Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

PPP = 2
"""Bytes that ns-3's links add to an IP packet."""

_MODEL = r"""
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
    int recoveries = 0, timeouts = 0;
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
    void Changed(TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t now) {
        recoveries += now == TcpSocketState::CA_RECOVERY;
        timeouts += now == TcpSocketState::CA_LOSS;
    }
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
        Ipv4AddressGenerator::Reset();
        nodes.Create(count);
        InternetStackHelper().Install(nodes);
    }
    void Link(int a, int b, double rate, double delay, int queue, bool from_host, double loss) {
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
        if (loss > 0)
            for (uint32_t end = 0; end < 2; end++)
                Simulator::Schedule(Seconds(START), [=] { Lose(devices.Get(end), loss); });
        uint32_t base = (10u << 24) + (uint32_t)(subnet++ << 2);
        Ipv4AddressHelper addresses{Ipv4Address(base), Ipv4Mask("255.255.255.252")};
        Ipv4InterfaceContainer ends = addresses.Assign(devices);
        TrafficControlHelper().Uninstall(devices);
        neighbours[a][b] = {ends.Get(0).second, ends.GetAddress(1)};
        neighbours[b][a] = {ends.Get(1).second, ends.GetAddress(0)};
        address[a] = ends.GetAddress(0);
        address[b] = ends.GetAddress(1);
    }
    // Connections are open when this starts.
    static void Lose(Ptr<NetDevice> device, double share) {
        auto model = CreateObject<RateErrorModel>();
        model->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
        model->SetRate(share);
        DynamicCast<PointToPointNetDevice>(device)->SetReceiveErrorModel(model);
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
        flow->sender->TraceConnectWithoutContext("CongState", MakeCallback(&Flow::Changed, flow));
        flow->sender->Bind();
        flow->sender->Connect(at);
        return flow;
    }
    // Every position sends a chunk, and another one for each that it has received.
    void Ring(std::vector<int> hosts, uint64_t chunk, std::vector<double> starts) {
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
            Simulator::Schedule(Seconds(START + starts[i]), [=] { (*own)[i]->Allow(chunk); });
        }
    }
    // Every source sends to its destination; done when all has arrived.
    void Flows(std::vector<int> from, std::vector<int> to, uint64_t size,
               std::vector<double> starts) {
        size_t number = done.size();
        done.push_back(0);
        auto left = std::make_shared<size_t>(from.size());
        for (size_t i = 0; i < from.size(); i++) {
            Flow* flow = Connect(from[i], to[i]);
            flow->on_receive = [=, this](uint64_t received) {
                if (received == size && !--*left) done[number] = Simulator::Now().GetSeconds();
            };
            Simulator::Schedule(Seconds(START + starts[i]), [=] { flow->Allow(size); });
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
        Simulator::Stop(Seconds(START + 100));
        Simulator::Run();
        Simulator::Destroy();
        std::vector<double> times;
        for (double each : done) times.push_back(each - START);
        return times;
    }
    int Recoveries() const {
        int sum = 0;
        for (auto& flow : flows) sum += flow->recoveries;
        return sum;
    }
    int Timeouts() const {
        int sum = 0;
        for (auto& flow : flows) sum += flow->timeouts;
        return sum;
    }
    static constexpr double START = 0.1;
};
}
"""


@cache
def load() -> Any:
    """The compiled model. Raises ImportError if ns-3 is not installed."""
    from ns import ns

    ns.cppyy.cppdef(_MODEL)
    return ns


def network(nodes: int, attributes: Mapping[str, str], run: int = 1) -> Any:
    """An empty network; see ``Network`` above. A process can have only one at a time.

    ``attributes``: defaults of ns-3's attributes by name. ``run`` seeds its random numbers.
    """
    ns = load()
    for name, value in attributes.items():
        ns.Config.SetDefault(f"ns3::{name}", ns.StringValue(value))
    ns.RngSeedManager.SetRun(run)
    return ns.cppyy.gbl.crosscheck.Network(nodes)
