#!/bin/sh
# two_networks.sh DELAY PROGRAM [ARGUMENTS]: runs dist_world in two processes, each in a network of its own; a cable
# between them delays every packet by DELAY milliseconds (0: no delay): netem, or where the kernel has none, two cables
# with the program's relay between them. Ends with 77 and a reason where the system does not allow it.
if [ -z "$ETNA_PRIVATE" ]; then
  unshare -m true 2>/dev/null || { echo "no namespaces of its own (unshare -m)"; exit 77; }
  ETNA_PRIVATE=1 exec unshare -m "$0" "$@"
fi
delay=$1
shift
a=etna_a_$$ b=etna_b_$$ middle=etna_m_$$ relay=
agent=$(mktemp)
trap '[ -z "$relay" ] || kill $relay 2>/dev/null
for n in $a $b $middle; do ip netns del $n 2>/dev/null; done; rm -f "$agent"' EXIT
refuse() { echo "$1"; exit 77; }
ip netns add $a 2>/dev/null && ip netns add $b 2>/dev/null || refuse "no network namespaces (ip netns add)"
# cable FIRST ITS_NETWORK SECOND ITS_NETWORK
cable() {
  ip link add $1 netns $2 type veth peer name $3 netns $4 2>/dev/null ||
    refuse "no virtual cables (ip link add type veth)"
}
cable va $a vb $b
with_netem() {
  tc -n $a qdisc add dev va root netem delay "${delay}ms" 2>/dev/null &&
    tc -n $b qdisc add dev vb root netem delay "${delay}ms" 2>/dev/null
}
if [ "$delay" != 0 ] && ! with_netem; then
  ip -n $a link del va
  ip netns add $middle
  cable va $a ma $middle
  cable vb $b mb $middle
  for device in ma mb; do ip -n $middle link set dev $device up; done
  relay=$(ip netns exec $middle "$1" --relay ma mb ${delay}000) || { reason=$relay relay=; refuse "no delay: $reason"; }
fi
ip -n $a addr add 10.77.0.1/24 dev va
ip -n $b addr add 10.77.0.2/24 dev vb
for device in "$a lo" "$a va" "$b lo" "$b vb"; do ip -n ${device% *} link set ${device#* } up; done
# What mpirun takes for ssh: HOST COMMAND.
cat >"$agent" <<TEXT
#!/bin/sh
shift
exec ip netns exec $b unshare -u sh -c "hostname etna-b; \$*"
TEXT
chmod +x "$agent"
ip netns exec $a unshare -u sh -c 'hostname etna-a; exec "$@"' sh mpirun --mca plm_rsh_agent "$agent" \
  --mca btl tcp,self --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 \
  -host 10.77.0.1:1,10.77.0.2:1 -x ETNA_THREADS -x ETNA_WORLD_ROUND_TRIP -n 2 "$@"
