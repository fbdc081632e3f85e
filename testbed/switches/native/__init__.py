"""The native switch: p4c's JSON for v1model, compiled to C with its own runtime.

``reader`` makes a ``program.Program`` of the JSON, ``emit`` makes C of that, ``build`` a program of
the C, and ``target`` runs it. The emitted file holds what the P4 program says; ``runtime/`` what
every switch does, to be read in this order:

====================  ===========================================================================
``pipeline.h``        what becomes of a packet: parser, ingress, egress per copy, deparser
``pass.h``            clones, resubmit, recirculate
``table.h``           exact, longest prefix, ternary and range tables
``bits.h``            bit fields and numbers of any width, in wire order
``hash.h meter.h``    checksums and hashes; two rates, three colours
``packet.h``          header images, stacks, packets on their way out
``ring.h``            packets from and to interfaces; how long a queue is
``switch.h``          the control socket
====================  ===========================================================================

It does what BMv2's simple_switch does, packet for packet; the tests hold it to that with programs
of their own, recorded and live. What a program does not use costs it nothing: passes, truncate()
and queue depths are compiled in where the program has them.

Refused when a program is read, each with its place in the P4 source where the JSON tells it:

- varbit fields, header unions, headers beyond 4096 bytes, saturating fields
- parser value sets, select over anything but fields and lookahead
- action profiles and selectors, idle timeouts of entries, range keys beyond 64 bits
- digests, extern instances, hash algorithms other than csum16, crc16, crc32, crcCCITT, xor16,
  xor32, identity and the custom CRCs with the parameters that BMv2 starts with
- saturating arithmetic and division beyond 64 bits, shifts beyond 4096 bits
- header fields (rather than metadata) in the field list of a clone or another round

Where P4 leaves something undefined the two may differ: fields of invalid headers and registers out
of bounds read as 0 here, and as what an earlier packet left there in BMv2. ``random`` draws from a
seeded generator. A false assert() or assume() ends the switch, with its place. ``log_msg`` says
nothing. The switch has one queue per port, that of the interface, behind egress: ``priority`` has
no effect, ``enq_qdepth`` and ``deq_qdepth`` are both its length when egress begins, and
``deq_timedelta`` is 0. Passes beyond the 4096th that one packet causes are dropped, and counted.
"""
