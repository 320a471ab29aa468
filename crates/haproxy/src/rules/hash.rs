//! HAProxy's own 32-bit hash functions, for balancing and for keys.

/// `sdbm`.
pub fn sdbm(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0u32, |hash, byte| {
        u32::from(*byte).wrapping_add(hash << 6).wrapping_add(hash << 16).wrapping_sub(hash)
    })
}

/// `djb2`.
pub fn djb2(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash << 5).wrapping_add(hash).wrapping_add(u32::from(*byte));
    bytes.iter().fold(5381, step)
}

/// `wt6`.
pub fn wt6(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (0xa53c_965a_u32, 0x5ca6_953a_u32);
    let (mut left, mut right) = (6, 18);
    for byte in bytes {
        a = !(a ^ u32::from(*byte));
        b = !(b.wrapping_add(u32::from(*byte)));
        (a, b) = (b.rotate_left(left), a.rotate_left(right));
        let bits = ((a >> 16) ^ b) & 0xffff;
        left = bits & 0x1f;
        right = bits >> 11;
    }
    a ^ b
}

/// Distributes a hash over all bits (after Bob Jenkins).
pub fn avalanche(hash: u32) -> u32 {
    let mut a = hash;
    a = a.wrapping_add(0x7ed5_5d16).wrapping_add(a << 12);
    a = (a ^ 0xc761_c23c) ^ (a >> 19);
    a = a.wrapping_add(0x1656_67b1).wrapping_add(a << 5);
    a = a.wrapping_add(0xd3a2_646c) ^ (a << 9);
    a = a.wrapping_add(0xfd70_46c5).wrapping_add(a << 3);
    a = (a ^ 0xb55a_4f09) ^ (a >> 16);
    a.wrapping_mul(3_221_225_473)
}
