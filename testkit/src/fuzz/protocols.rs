//! Targets for what clients send: RESP and memcached requests.

use hedgerow_server::fuzzing;

pub(super) fn resp(data: &[u8]) {
    fuzzing::resp(data, true);
    fuzzing::resp(data, false);
}

pub(super) fn resp_seeds() -> Vec<Vec<u8>> {
    let seeds: [&[u8]; 6] = [
        b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n",
        b"*1\r\n$4\r\nPING\r\n*0\r\n*-1\r\nPING\r\n",
        b"SET key \"a \\x41\\n quoted value\" EX 10\r\nGET 'single'\r\n\r\n",
        b"*4\r\n$5\r\nRANGE\r\n$0\r\n\r\n$1\r\nz\r\n$5\r\nLIMIT\r\n",
        b"*5\r\n$8\r\nSNAPSHOT\r\n$4\r\nNAME\r\n$1\r\nn\r\n$3\r\nTTL\r\n$4\r\n\
            1000\r\n*4\r\n$4\r\nWITH\r\n\
            $1\r\nn\r\n$3\r\nGET\r\n$1\r\na\r\n",
        b"*2\r\n$5\r\nBEGIN\r\n$12\r\nSERIALIZABLE\r\n*1\r\n$6\r\nCOMMIT\r\n\
            *1\r\n$8\r\nROLLBACK\r\n",
    ];
    seeds.map(<[u8]>::to_vec).to_vec()
}

pub(super) fn memcached(data: &[u8]) {
    fuzzing::memcached(data);
}

pub(super) fn memcached_seeds() -> Vec<Vec<u8>> {
    let seeds: [&[u8]; 4] = [
        b"set key 7 0 5\r\nvalue\r\nget key other\r\ncas key 1 2 3 4 noreply\r\nabc\r\n",
        b"incr n 18446744073709551615\r\ntouch key -1\r\nflush_all 3 noreply\r\nversion\r\n",
        b"mg a2V5 b v t k Oabc q\r\nms key 3 T90 F7 c\r\nabc\r\nmd key I\r\nma n N0 J1 \
            D2\r\nmn\r\n",
        b"set too-big 0 0 4294967296\r\nxx\r\ngat 10 key\r\nquit\r\n",
    ];
    seeds.map(<[u8]>::to_vec).to_vec()
}
