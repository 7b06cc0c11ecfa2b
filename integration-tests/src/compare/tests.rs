use super::*;

fn expected(text: &str) -> Expected {
    Expected::parse(text).unwrap()
}

fn actual(text: &str) -> Table {
    csv::parse(text).unwrap()
}

fn check(want: &str, got: &str, order: &Order) -> Result<Match, String> {
    compare(&expected(want), &actual(got), order)
}

const WANT: &str = "id INTEGER,\"sum DECIMAL(38,2)\",name VARCHAR\n1,1.50,a\n2,-0.10,b\n3,,\"\"\n";

#[test]
fn the_same_rows_match_in_any_order_when_none_is_asked() {
    assert_eq!(check(WANT, "id,sum,name\n3,,\"\"\n2,-0.1,b\n1,1.5000,a\n", &Order::Any), Ok(Match::Exact));
}

#[test]
fn a_wrong_order_is_refused_when_one_is_asked() {
    let error = check(WANT, "id,sum,name\n3,,\"\"\n2,-0.1,b\n1,1.5,a\n", &Order::By(vec![0])).unwrap_err();
    assert!(error.contains("2 of 3 rows differ") && error.contains("row 1, column id"), "{error}");
}

#[test]
fn wrong_values_are_refused() {
    for (got, what) in [
        ("id,s,n\n1,1.51,a\n2,-0.1,b\n3,,\"\"\n", "a decimal that is one unit off"),
        ("id,s,n\n1,1.5,a\n2,0.1,b\n3,,\"\"\n", "a lost sign"),
        ("id,s,n\n1,1.5,a\n2,-0.1,b\n3,,\n", "NULL for the empty string"),
        ("id,s,n\n1,1.5,a\n2,-0.1,b\n3,0,\"\"\n", "zero for NULL"),
        ("id,s,n\n1,1.5,a\n2,-0.1,B\n3,,\"\"\n", "another case"),
        ("id,s,n\n1,1.5,a\n2,-0.1,b\n", "a missing row"),
        ("id,s,n\n1,1.5,a\n1,1.5,a\n2,-0.1,b\n3,,\"\"\n", "a doubled row"),
        ("id,s,n\n1,1.5,a\n1,1.5,a\n3,,\"\"\n", "a doubled row in place of another"),
        ("id,s\n1,1.5\n2,-0.1\n3,\n", "a missing column"),
        ("id,s,n\n1,1.5e0,a\n2,-0.1,b\n3,,\"\"\n", "an exponent in a decimal"),
    ] {
        assert!(check(WANT, got, &Order::Any).is_err(), "{what} was accepted");
        assert!(check(WANT, got, &Order::By(vec![0])).is_err(), "{what} was accepted in order");
    }
}

#[test]
fn the_difference_of_two_bags_is_shown() {
    let error = check(WANT, "id,s,n\n1,1.5,a\n4,7,x\n3,,\"\"\n", &Order::Any).unwrap_err();
    assert!(error.contains("1 expected rows are missing\n  \"2\", \"-0.10\", \"b\""), "{error}");
    assert!(error.contains("1 rows were not expected\n  \"4\", \"7\", \"x\""), "{error}");
}

#[test]
fn ties_may_change_places_and_are_reported() {
    let want = "n BIGINT,name VARCHAR\n2,a\n1,b\n1,c\n0,d\n";
    assert_eq!(check(want, "n,s\n2,a\n1,c\n1,b\n0,d\n", &Order::By(vec![0])), Ok(Match::UpToTies));
    assert!(check(want, "n,s\n1,b\n2,a\n1,c\n0,d\n", &Order::By(vec![0])).is_err());
    assert!(check(want, "n,s\n2,a\n1,c\n1,c\n0,d\n", &Order::By(vec![0])).is_err());
}

#[test]
fn doubles_are_near_to_nine_digits() {
    let want = "x DOUBLE\n1000000000\n";
    assert!(check(want, "x\n1000000000.5\n", &Order::Any).is_ok());
    assert!(check(want, "x\n1000000002\n", &Order::Any).is_err());
    assert!(check(want, "x\nNaN\n", &Order::Any).is_err());
}

#[test]
fn quotients_are_near_to_six_digits_or_to_their_last_digit() {
    let want = "x QUOTIENT\n0.04998529583839761\n";
    assert!(check(want, "x\n0.049985\n", &Order::Any).is_ok(), "one unit of the sixth digit");
    assert!(check(want, "x\n0.0499852959\n", &Order::Any).is_ok());
    assert!(check(want, "x\n0.04998\n", &Order::Any).is_err(), "too few digits");
    assert!(check(want, "x\n0.049983\n", &Order::Any).is_err());
    assert!(check(want, "x\n0.04998629\n", &Order::Any).is_err());
}

#[test]
fn equal_exact_columns_are_paired_by_their_near_ones() {
    let want = "k VARCHAR,x DOUBLE\na,1.5\na,10.25\n";
    assert!(check(want, "k,x\na,10.25\na,1.5\n", &Order::Any).is_ok());
    assert!(check(want, "k,x\na,10.25\na,1.6\n", &Order::Any).is_err());
}

#[test]
fn large_numbers_are_not_compared_as_floats() {
    let want = "\"x DECIMAL(38,0)\"\n99999999999999999999999999999999999999\n";
    assert!(check(want, "x\n99999999999999999999999999999999999999\n", &Order::Any).is_ok());
    assert!(check(want, "x\n99999999999999999999999999999999999998\n", &Order::Any).is_err());
}

#[test]
fn the_order_is_read_off_the_query() {
    let columns: Vec<String> = ["s_name", "numwait"].map(String::from).to_vec();
    let of = |query: &str| Order::of_query(query, &columns);
    assert_eq!(
        of("SELECT 1 FROM t GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100"),
        Ok(Order::By(vec![1, 0]))
    );
    assert_eq!(of("SELECT ROW_NUMBER() OVER (ORDER BY a) FROM t"), Ok(Order::Any));
    assert_eq!(of("SELECT 1 FROM (SELECT 2 ORDER BY x) q"), Ok(Order::Any));
    assert!(of("SELECT 1 FROM t ORDER BY l_tax").is_err());
}

#[test]
fn an_unknown_type_is_refused() {
    assert!(Expected::parse("x BLOB\n").is_err());
    assert!(Expected::parse("x\n1\n").is_err());
}
