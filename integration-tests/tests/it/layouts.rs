//! The relay of results in the JobManager and the data plane of the TaskManagers each know the layout of a ticket; neither may
//! depend on the other, so this holds them together.

use thalweg_rpc::{ExchangeTicket, TicketKey};
use thalweg_shuffle::flight;
use thalweg_types::{ExchangeId, ExchangeKey, Interval, JobId, LeaderEpoch};

#[test]
fn a_ticket_signed_for_the_relay_is_one_the_data_plane_takes() {
    let key = TicketKey::from_token("a token");
    let plane_key = flight::TicketKey::new(key.as_bytes());
    for rows in [None, Some(Interval::new(3, 1 << 40))] {
        let exchange = ExchangeKey { job: JobId(0x0123_4567_89ab_cdef_u128 << 40), exchange: ExchangeId(7) };
        let (maps, subpartitions) = (Interval::new(5, 6), Interval::new(0, 1));
        let (epoch, incarnation) = (LeaderEpoch(11), 0xfeed_f00d);
        let relay = ExchangeTicket { exchange, maps, subpartitions, rows, epoch, incarnation }.sign(&key);
        let plane = flight::Ticket { exchange, maps, subpartitions, rows, epoch, incarnation };
        assert_eq!(relay, plane.encode(&plane_key));
        assert_eq!(flight::Ticket::decode(&relay, &plane_key).unwrap(), plane);
    }
}
