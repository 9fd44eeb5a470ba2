#!/bin/sh
# two_networks.sh DELAY PROGRAM [ARGUMENTS]: runs a program in two processes, each in a network of its own; a cable
# between them delays every packet by DELAY (1ms; 0: no delay). Ends with 77 and a reason where the system does not
# allow it.
if [ -z "$ETNA_PRIVATE" ]; then
  unshare -m true 2>/dev/null || { echo "no namespaces of its own (unshare -m)"; exit 77; }
  ETNA_PRIVATE=1 exec unshare -m "$0" "$@"
fi
delay=$1
shift
a=etna_a_$$ b=etna_b_$$
agent=$(mktemp)
trap 'ip netns del $a 2>/dev/null; ip netns del $b 2>/dev/null; rm -f "$agent"' EXIT
refuse() { echo "$1"; exit 77; }
ip netns add $a 2>/dev/null && ip netns add $b 2>/dev/null || refuse "no network namespaces (ip netns add)"
ip link add va netns $a type veth peer name vb netns $b 2>/dev/null ||
  refuse "no virtual cables (ip link add type veth)"
ip -n $a addr add 10.77.0.1/24 dev va
ip -n $b addr add 10.77.0.2/24 dev vb
for device in "$a lo" "$a va" "$b lo" "$b vb"; do ip -n ${device% *} link set ${device#* } up; done
if [ "$delay" != 0 ]; then
  tc -n $a qdisc add dev va root netem delay "$delay" 2>/dev/null &&
    tc -n $b qdisc add dev vb root netem delay "$delay" 2>/dev/null || refuse "no delay (tc netem)"
fi
# What mpirun takes for ssh: HOST COMMAND.
cat >"$agent" <<TEXT
#!/bin/sh
shift
exec ip netns exec $b unshare -u sh -c "hostname etna-b; \$*"
TEXT
chmod +x "$agent"
ip netns exec $a unshare -u sh -c 'hostname etna-a; exec "$@"' sh mpirun --mca plm_rsh_agent "$agent" \
  --mca btl tcp,self --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 \
  -host 10.77.0.1:1,10.77.0.2:1 -x ETNA_THREADS -n 2 "$@"
