"""The native switch: p4c's JSON for v1model, compiled to C with its own runtime.

``reader`` makes a ``program.Program`` from the JSON, ``emit`` makes C from that, ``build`` compiles
the C, and ``target`` runs it. The emitted file has what is specific to the P4 program; ``runtime/``
has what all switches share. Read it in this order:

====================  ===========================================================================
``pipeline.h``        a packet's stages: parser, ingress, egress per copy, deparser
``pass.h``            clones, resubmit, recirculate
``table.h``           exact, longest prefix, ternary and range tables
``bits.h``            bit fields and numbers of any width, in wire order
``hash.h meter.h``    checksums and hashes; two rates, three colours
``packet.h``          header images, stacks, packets on their way out
``ring.h``            packets from and to interfaces; queue lengths
``switch.h``          the control socket
====================  ===========================================================================

It behaves as BMv2's simple_switch does, packet for packet; the tests check that with programs of
their own, against recordings and live. Unused features cost nothing: passes, truncate() and queue
depths are compiled in only if the program uses them.

The reader refuses the following, each with its position in the P4 source if the JSON has it:

- varbit fields, header unions, headers beyond 4096 bytes, saturating fields
- parser value sets, select over anything but fields and lookahead
- action profiles and selectors, idle timeouts of entries, range keys beyond 64 bits
- digests, extern instances, hash algorithms other than csum16, crc16, crc32, crcCCITT, xor16,
  xor32, identity and the custom CRCs with the parameters that BMv2 starts with
- saturating arithmetic and division beyond 64 bits, shifts beyond 4096 bits
- header fields (rather than metadata) in the field list of a clone, resubmit or recirculate

Where P4 leaves behaviour undefined the two may differ: fields of invalid headers and registers out
of bounds read as 0 here, but in BMv2 as the value that an earlier packet left there. ``random``
draws from a seeded generator. A false assert() or assume() ends the switch and prints its
position. ``log_msg`` prints nothing. The switch has one queue per port, that of the interface,
after egress: ``priority`` has no effect, ``enq_qdepth`` and ``deq_qdepth`` are both its length
when egress begins, and ``deq_timedelta`` is 0. Passes beyond the 4096th that one packet causes are
dropped and counted.
"""
