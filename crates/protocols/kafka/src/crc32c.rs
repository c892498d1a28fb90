//! CRC-32C (Castagnoli), as RFC 3720, appendix B.4, has it.

/// The polynomial, its bits turned round.
const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 {
                (sum >> 1) ^ POLYNOMIAL
            } else {
                sum >> 1
            };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        let index = (sum ^ u32::from(*byte)) & 0xff;
        TABLE[index as usize] ^ (sum >> 8)
    };
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the RFC.
    #[test]
    fn the_examples_of_the_rfc() {
        let rising: Vec<u8> = (0..32).collect();
        for (bytes, sum) in [
            (vec![0; 32], 0x8a91_36aa),
            (vec![0xff; 32], 0x62a8_ab43),
            (rising, 0x46dd_794e),
        ] {
            assert_eq!(crc32c(&bytes), sum, "{bytes:?}");
        }
    }
}
