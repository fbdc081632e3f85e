// A ring all-reduce among hosts of one switch in SimGrid, for benchmarks/simgrid_ring.py:
//     simgrid_ring HOSTS BYTES RATE LATENCY
// Every host sends a chunk to the next one and waits for one, 2(N-1) times. Prints simulated seconds,
// processor seconds, and the peak memory in KiB.
#include <simgrid/s4u.hpp>
#include <sys/resource.h>

#include <cstdio>
#include <string>

namespace sg4 = simgrid::s4u;

int main(int argc, char **argv)
{
    sg4::Engine engine(&argc, argv);
    if (argc != 5)
        return 1;
    const int hosts = std::stoi(argv[1]);
    const double bytes = std::stod(argv[2]), rate = std::stod(argv[3]), latency = std::stod(argv[4]);
    auto *zone = sg4::create_star_zone("rack");
    for (int i = 0; i < hosts; i++) {
        const auto name = std::to_string(i);
        auto *host = zone->create_host("h" + name, 1e9);
        auto *link = zone->create_split_duplex_link("l" + name, rate / 8);
        link->set_latency(latency)->seal();
        zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr,
                        {{link, sg4::LinkInRoute::Direction::UP}}, true);
    }
    zone->seal();
    for (int i = 0; i < hosts; i++)
        sg4::Actor::create("a" + std::to_string(i), engine.host_by_name("h" + std::to_string(i)),
                           [=] {
                               static int chunk;
                               auto *own = sg4::Mailbox::by_name(std::to_string(i));
                               auto *next = sg4::Mailbox::by_name(std::to_string((i + 1) % hosts));
                               for (int step = 0; step < 2 * (hosts - 1); step++) {
                                   auto sent = next->put_async(&chunk, (uint64_t)(bytes / hosts));
                                   own->get<int>();
                                   sent->wait();
                               }
                           });
    engine.run();
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    std::printf("%.9f %.3f %ld\n", sg4::Engine::get_clock(),
                (double)used.ru_utime.tv_sec + (double)used.ru_utime.tv_usec * 1e-6 +
                    (double)used.ru_stime.tv_sec + (double)used.ru_stime.tv_usec * 1e-6,
                used.ru_maxrss);
}
