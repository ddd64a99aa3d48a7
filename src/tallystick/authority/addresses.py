"""Network addresses, read by hand: one strict spelling each, and which of them lie inside.

The tables are ours and fixed, because a library's idea of "private" changes between versions and
a judgement must be the same at replay.
An address is *inside* unless it is plainly a public one: an IPv6 address that carries an IPv4 one
(mapped, NAT64, 6to4, Teredo) is inside too, so only a grant that names its network reaches it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Address:
    """An address as a number of 32 or 128 bits."""

    bits: int
    number: int

    def within(self, net: Net) -> bool:
        """True when the address lies in the network; families never mix."""
        shift = net.bits - net.length
        return self.bits == net.bits and self.number >> shift == net.number >> shift


@dataclass(frozen=True, slots=True)
class Net:
    """A network: its lowest address and the length of its prefix."""

    bits: int
    number: int
    length: int


def read_ipv4(text: str) -> Address | None:
    """Four decimal numbers without leading zeros; every other spelling is None."""
    parts = text.split(".")
    if len(parts) != 4:
        return None
    number = 0
    for part in parts:
        if not (part.isascii() and part.isdigit()) or len(part) > 3:
            return None
        if (len(part) > 1 and part[0] == "0") or int(part) > 255:
            return None
        number = number << 8 | int(part)
    return Address(32, number)


def read_ipv6(text: str) -> Address | None:
    """An IPv6 address, `::` and a dotted tail included; zones are None."""
    head, gap, tail = text.partition("::")
    if not gap:
        groups = _groups(head)
        return _joined(groups) if groups is not None and len(groups) == 8 else None
    front = _groups(head) if head else []
    back = _groups(tail) if tail else []
    if front is None or back is None or len(front) + len(back) > 7:
        return None
    return _joined(front + [0] * (8 - len(front) - len(back)) + back)


def _groups(text: str) -> list[int] | None:
    found: list[int] = []
    parts = text.split(":")
    for index, part in enumerate(parts):
        if "." in part and index == len(parts) - 1:
            four = read_ipv4(part)
            if four is None:
                return None
            found += [four.number >> 16, four.number & 0xFFFF]
        elif 1 <= len(part) <= 4 and all(c in "0123456789abcdefABCDEF" for c in part):
            found.append(int(part, 16))
        else:
            return None
    return found


def _joined(groups: list[int]) -> Address:
    number = 0
    for group in groups:
        number = number << 16 | group
    return Address(128, number)


def read_address(text: str) -> Address | None:
    """An address of either family, without brackets."""
    return read_ipv6(text) if ":" in text else read_ipv4(text)


def read_net(text: str) -> Net | None:
    """`address/length`, or an address alone; bits below the prefix must be zero."""
    base, slash, size = text.partition("/")
    address = read_address(base)
    if address is None:
        return None
    if not slash:
        return Net(address.bits, address.number, address.bits)
    if not (size.isascii() and size.isdigit()) or len(size) > 3 or int(size) > address.bits:
        return None
    rest = address.bits - int(size)
    if address.number & ((1 << rest) - 1):
        return None
    return Net(address.bits, address.number, int(size))


def _nets(text: str) -> tuple[Net, ...]:
    nets = [read_net(part) for part in text.split()]
    return tuple(net for net in nets if net is not None)


_INSIDE_4 = _nets(
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12"
    " 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24"
    " 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
)
_PUBLIC_6 = _nets("2000::/3")
_INSIDE_6 = _nets("2001::/23 2001:db8::/32 2002::/16 3fff::/20")
LOOPBACK = _nets("127.0.0.0/8 ::1/128")


def is_inside(address: Address) -> bool:
    """True for loopback, private, link-local, metadata, embedded and reserved addresses."""
    if address.bits == 32:
        return any(address.within(net) for net in _INSIDE_4)
    if not any(address.within(net) for net in _PUBLIC_6):
        return True
    return any(address.within(net) for net in _INSIDE_6)


def address_allowed(address: Address, cidrs: Sequence[str]) -> bool:
    """True for a public address, and for an inside one that a network of the grant covers."""
    if not is_inside(address):
        return True
    return any(net is not None and address.within(net) for net in map(read_net, cidrs))


def reaches_loopback(cidrs: Sequence[str]) -> bool:
    """True when some network of the grant lies on, or around, the loopback ones."""
    for net in map(read_net, cidrs):
        if net is None:
            continue
        for loop in LOOPBACK:
            low = Address(net.bits, net.number)
            if low.within(loop) or Address(loop.bits, loop.number).within(net):
                return True
    return False
